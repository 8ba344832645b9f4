// Mixtral (Jiang et al. 2024) and the Qwen3 mixtures: Llama with experts in place of the ffn.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read_mixtral(Fields& f, const std::string& file) {
  ModelConfig c =
      read_llama_like(f, file, "mixtral", {.kv_heads = 8, .epsilon = 1e-5, .theta = 1e6, .takes_bias = false});
  c.mixture.experts = f.integer("num_local_experts", 1, 1 << 20);
  c.mixture.expert_width = c.ffn_width;
  c.mixture.router.top_k = f.integer("num_experts_per_tok", 1, c.mixture.experts);
  c.mixture.router.normalises = true;
  read_balance(f, c);
  if (f.number_or("router_jitter_noise", 0, 0, 10) != 0) f.fail("router_jitter_noise", "only 0 is offered");
  read_windows(f, c, 1);
  return c;
}

ModelConfig read_qwen3_moe(Fields& f, const std::string& file) {
  ModelConfig c = read_llama_like(f, file, "qwen3_moe");
  c.qk_norm = QkNorm::kHead;
  c.mixture.experts = f.integer("num_experts", 1, 1 << 20);
  c.mixture.expert_width = f.integer("moe_intermediate_size", 1, kMost);
  c.mixture.router.top_k = f.integer("num_experts_per_tok", 1, c.mixture.experts);
  c.mixture.router.normalises = f.boolean_or("norm_topk_prob", false);
  read_balance(f, c);
  c.mixture.period = f.integer_or("decoder_sparse_step", 1, 1, kMostLayers);
  if (f.has("mlp_only_layers")) c.mixture.also_dense = f.integers("mlp_only_layers", 0, c.layers - 1);
  f.known("mlp_only_layers");
  if (f.boolean_or("use_sliding_window", false))
    f.fail("use_sliding_window", "windows are not offered for this family; set it to false");
  f.known("max_window_layers");
  read_windows(f, c, 0);
  return c;
}

}  // namespace

std::vector<Family> mixture_families() { return {{"mixtral", read_mixtral}, {"qwen3_moe", read_qwen3_moe}}; }

}  // namespace sextant
