// Llama and what differs from it in biases, norms of q and k, and windows: Mistral, Qwen2, Qwen3.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {

ModelConfig read_llama_like(Fields& f, const std::string& file, const std::string& family) {
  ModelConfig c;
  c.family = family;
  c.width = f.integer("hidden_size", 1, kMost);
  c.layers = f.integer("num_hidden_layers", 1, kMostLayers);
  c.heads = f.integer("num_attention_heads", 1, kMost);
  c.kv_heads = f.integer_or("num_key_value_heads", c.heads, 1, c.heads);
  if (c.heads % c.kv_heads != 0)
    f.fail("num_key_value_heads", str("found ", c.kv_heads, ", which does not divide num_attention_heads = ", c.heads));
  if (!f.has("head_dim") && c.width % c.heads != 0)
    f.fail("num_attention_heads", str("found ", c.heads, ", which does not divide hidden_size = ", c.width));
  c.head_width = f.integer_or("head_dim", c.width / c.heads, 1, kMost);
  if (c.head_width % 2 != 0)
    f.fail("head_dim", str("found ", c.head_width, ", rotary positions need an even head width"));
  c.ffn_width = f.integer("intermediate_size", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  c.max_positions = f.integer("max_position_embeddings", 1, kMost);
  read_rope(f, file, c);
  c.norm_epsilon = f.number_or("rms_norm_eps", 1e-6, 0, 1);
  f.one_of_or("hidden_act", "silu", {"silu"});
  c.tied_head = f.boolean_or("tie_word_embeddings", false);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.attention_dropout = f.number_or("attention_dropout", 0, 0, 0.95);
  c.qkv_bias = c.attention_out_bias = f.boolean_or("attention_bias", false);
  return c;
}

std::string llama_tensor(const std::string& what, const std::string& part, int layer) {
  const std::string at = str("model.layers.", layer, ".");
  if (what == "embed") return "model.embed_tokens.weight";
  if (what == "head") return "lm_head.weight";
  if (what == "final_norm") return "model.norm." + part;
  if (what == "norm1") return at + "input_layernorm." + part;
  if (what == "norm2") return at + "post_attention_layernorm." + part;
  if (what == "q" || what == "k" || what == "v") return at + "self_attn." + what + "_proj." + part;
  if (what == "out") return at + "self_attn.o_proj." + part;
  if (what == "q_norm" || what == "k_norm") return at + "self_attn." + what + "." + part;
  check(what == "gate" || what == "up" || what == "down", "a tensor has a place in llama files");
  return at + "mlp." + what + "_proj." + part;
}

namespace {

ModelConfig read_llama(Fields& f, const std::string& file) {
  ModelConfig c = read_llama_like(f, file, "llama");
  c.ffn_bias = f.boolean_or("mlp_bias", false);
  read_windows(f, c, 0);
  return c;
}

ModelConfig read_mistral(Fields& f, const std::string& file) {
  ModelConfig c = read_llama_like(f, file, "mistral");
  read_windows(f, c, 1);
  return c;
}

// Qwen's windows, where switched on, are those of the layers from max_window_layers on; no release does so.
void no_windows(Fields& f) {
  if (f.boolean_or("use_sliding_window", false))
    f.fail("use_sliding_window", "windows are not offered for this family; set it to false");
  f.known("sliding_window");
  f.known("max_window_layers");
}

ModelConfig read_qwen2(Fields& f, const std::string& file) {
  ModelConfig c = read_llama_like(f, file, "qwen2");
  c.qkv_bias = true;
  no_windows(f);
  read_windows(f, c, 0);
  return c;
}

ModelConfig read_qwen3(Fields& f, const std::string& file) {
  ModelConfig c = read_llama_like(f, file, "qwen3");
  c.qk_norm = QkNorm::kHead;
  no_windows(f);
  read_windows(f, c, 0);
  return c;
}

}  // namespace

std::vector<Family> llama_families() {
  return {{"llama", read_llama, llama_tensor},
          {"mistral", read_mistral, llama_tensor},
          {"qwen2", read_qwen2, llama_tensor},
          {"qwen3", read_qwen3, llama_tensor}};
}

}  // namespace sextant
