// DeepSeek-V2 and V3 (DeepSeek-AI 2024): latent attention, shared experts, dense layers at the start.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read(Fields& f, const std::string& file, const std::string& family) {
  ModelConfig c;
  c.family = family;
  c.width = f.integer("hidden_size", 1, kMost);
  c.layers = f.integer("num_hidden_layers", 1, kMostLayers);
  c.heads = c.kv_heads = f.integer("num_attention_heads", 1, kMost);
  f.integer_or("num_key_value_heads", c.heads, c.heads, c.heads);
  c.latent.kv_rank = f.integer("kv_lora_rank", 1, kMost);
  c.latent.q_rank = f.integer_or("q_lora_rank", 0, 1, kMost);
  c.latent.key_width = f.integer("qk_nope_head_dim", 1, kMost);
  c.latent.rope_width = f.integer("qk_rope_head_dim", 2, kMost);
  if (c.latent.rope_width % 2 != 0)
    f.fail("qk_rope_head_dim", str("found ", c.latent.rope_width, ", rotary positions need an even width"));
  c.latent.value_width = f.integer("v_head_dim", 1, kMost);
  c.head_width = c.latent.key_width + c.latent.rope_width;
  f.integer_or("head_dim", c.latent.rope_width, 1, kMost);
  c.ffn_width = f.integer("intermediate_size", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  c.max_positions = f.integer("max_position_embeddings", 1, kMost);
  read_rope(f, file, c, {.yarn = true});
  c.norm_epsilon = f.number_or("rms_norm_eps", 1e-6, 0, 1);
  f.one_of_or("hidden_act", "silu", {"silu"});
  c.tied_head = f.boolean_or("tie_word_embeddings", false);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.attention_dropout = f.number_or("attention_dropout", 0, 0, 0.95);
  must_be(f, "attention_bias", false);

  MixtureConfig& m = c.mixture;
  m.experts = f.integer("n_routed_experts", 1, 1 << 20);
  m.expert_width = f.integer("moe_intermediate_size", 1, kMost);
  // The two classes have different values for what is missing, so these must be said.
  f.known("n_shared_experts");
  m.shared_width =
      (f.member("n_shared_experts") && !f.has("n_shared_experts") ? 0 : f.integer("n_shared_experts", 0, 1024)) *
      m.expert_width;
  m.first_dense = f.integer("first_k_dense_replace", 0, c.layers);
  f.integer_or("moe_layer_freq", 1, 1, 1);
  m.router.top_k = f.integer("num_experts_per_tok", 1, m.experts);
  const std::string method = f.one_of_or("topk_method", family == "deepseek_v3" ? "noaux_tc" : "greedy",
                                         {"greedy", "group_limited_greedy", "noaux_tc"});
  m.router.groups = f.integer_or("n_group", family == "deepseek_v3" ? 8 : 1, 1, m.experts);
  m.router.groups_chosen = f.integer_or("topk_group", family == "deepseek_v3" ? 4 : 1, 1, m.router.groups);
  if (method == "greedy") m.router.groups = m.router.groups_chosen = 1;
  if (m.experts % m.router.groups != 0)
    f.fail("n_group", str("found ", m.router.groups, ", which does not divide n_routed_experts = ", m.experts));
  const std::string scores = family == "deepseek_v3" ? "sigmoid" : "softmax";
  m.router.sigmoid = f.one_of_or("scoring_func", scores, {"softmax", "sigmoid"}) == "sigmoid";
  m.router.normalises = f.boolean("norm_topk_prob");
  m.router.scale = f.number("routed_scaling_factor", 0, 1e6);
  m.router.auxiliary = f.number_or("aux_loss_alpha", 0, 0, 1e3);
  // Layers that predict further tokens are extra heads of the training; they are not part of this model.
  f.known("num_nextn_predict_layers");
  for (const char* key : {"seq_aux", "ep_size", "quantization_config", "qk_head_dim"}) f.known(key);
  must_be(f, "rope_interleave", true);
  must_be(f, "mlp_bias", false);
  return c;
}

ModelConfig read_v2(Fields& f, const std::string& file) { return read(f, file, "deepseek_v2"); }
ModelConfig read_v3(Fields& f, const std::string& file) { return read(f, file, "deepseek_v3"); }

}  // namespace

std::vector<Family> deepseek_families() { return {{"deepseek_v2", read_v2}, {"deepseek_v3", read_v3}}; }

}  // namespace sextant
