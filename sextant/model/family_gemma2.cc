// Gemma 2 (Gemma team 2024): norms before and behind the branches, every second layer slides, scores and logits are
// capped, the embedding is scaled by the root of its width.
#include <cmath>

#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read(Fields& f, const std::string& file) {
  ModelConfig c;
  c.family = "gemma2";
  c.width = f.integer("hidden_size", 1, kMost);
  c.layers = f.integer("num_hidden_layers", 1, kMostLayers);
  c.heads = f.integer("num_attention_heads", 1, kMost);
  c.kv_heads = f.integer("num_key_value_heads", 1, c.heads);
  if (c.heads % c.kv_heads != 0)
    f.fail("num_key_value_heads", str("found ", c.kv_heads, ", which does not divide num_attention_heads = ", c.heads));
  c.head_width = f.integer_or("head_dim", 256, 2, kMost);
  if (c.head_width % 2 != 0)
    f.fail("head_dim", str("found ", c.head_width, ", rotary positions need an even head width"));
  c.ffn_width = f.integer("intermediate_size", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  c.max_positions = f.integer("max_position_embeddings", 1, kMost);
  read_rope(f, file, c);
  c.norm_epsilon = f.number_or("rms_norm_eps", 1e-6, 0, 1);
  f.one_of_or("hidden_activation", "gelu_pytorch_tanh", {"gelu_pytorch_tanh"});
  f.known("hidden_act");  // the older name; where both stand, the newer one counts
  c.tied_head = f.boolean_or("tie_word_embeddings", true);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.attention_dropout = f.number_or("attention_dropout", 0, 0, 0.95);
  c.qkv_bias = c.attention_out_bias = f.boolean_or("attention_bias", false);
  c.ffn = Ffn::kGeglu;
  c.norm_order = NormOrder::kBoth;
  c.norm_one_more = true;
  c.attention.scale = 1 / std::sqrt(f.number_or("query_pre_attn_scalar", 256, 1e-3, 1e9));
  c.attention.softcap = number_or_none(f, "attn_logit_softcapping", 50);
  c.head.softcap = number_or_none(f, "final_logit_softcapping", 30);
  c.embedding_scale = std::sqrt(static_cast<double>(c.width));
  f.known("cache_implementation");
  f.known("sliding_window_size");  // an older name beside sliding_window
  read_windows(f, c, 2, 4096);
  return c;
}

std::string tensor(const std::string& what, const std::string& part, int layer) {
  const std::string at = str("model.layers.", layer, ".");
  if (what == "norm1_behind") return at + "post_attention_layernorm." + part;
  if (what == "norm2") return at + "pre_feedforward_layernorm." + part;
  if (what == "norm2_behind") return at + "post_feedforward_layernorm." + part;
  return llama_tensor(what, part, layer);
}

}  // namespace

std::vector<Family> gemma2_families() {
  return {{"gemma2", read, tensor, false, QkvLayout::kApart, {}, "attention_dropout", "Gemma2ForCausalLM"}};
}

}  // namespace sextant
