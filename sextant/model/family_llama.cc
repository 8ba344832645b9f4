// Llama and what differs from it in biases, norms of q and k, and windows: Mistral, Qwen2, Qwen3.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {

ModelConfig read_llama_like(Fields& f, const std::string& file, const std::string& family, LlamaDefaults defaults) {
  ModelConfig c;
  c.family = family;
  c.width = f.integer("hidden_size", 1, kMost);
  c.layers = f.integer("num_hidden_layers", 1, kMostLayers);
  c.heads = f.integer("num_attention_heads", 1, kMost);
  const bool says_kv = f.member("num_key_value_heads") != nullptr;  // null is as many as heads
  c.kv_heads =
      f.integer_or("num_key_value_heads", says_kv || defaults.kv_heads == 0 ? c.heads : defaults.kv_heads, 1, c.heads);
  if (c.kv_heads > c.heads)
    f.fail("num_key_value_heads", str("is missing, which stands for ", c.kv_heads, ", more than the heads"));
  if (c.heads % c.kv_heads != 0)
    f.fail("num_key_value_heads", str("found ", c.kv_heads, ", which does not divide num_attention_heads = ", c.heads));
  if (!f.has("head_dim") && defaults.head_width == 0 && c.width % c.heads != 0)
    f.fail("num_attention_heads", str("found ", c.heads, ", which does not divide hidden_size = ", c.width));
  c.head_width = f.integer_or("head_dim", defaults.head_width > 0 ? defaults.head_width : c.width / c.heads, 1, kMost);
  if (c.head_width % 2 != 0)
    f.fail("head_dim", str("found ", c.head_width, ", rotary positions need an even head width"));
  c.ffn_width = f.integer("intermediate_size", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  c.max_positions = f.integer("max_position_embeddings", 1, kMost);
  read_rope(f, file, c, {.theta = defaults.theta});
  c.norm_epsilon = f.number_or("rms_norm_eps", defaults.epsilon, 0, 1);
  f.one_of_or("hidden_act", "silu", {"silu"});
  c.tied_head = f.boolean_or("tie_word_embeddings", false);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.attention_dropout = f.number_or("attention_dropout", 0, 0, 0.95);
  if (defaults.takes_bias)
    c.qkv_bias = c.attention_out_bias = f.boolean_or("attention_bias", false);
  else
    must_be(f, "attention_bias", false);
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
  ModelConfig c = read_llama_like(f, file, "mistral", {.kv_heads = 8, .takes_bias = false});
  read_windows(f, c, 1, 4096);
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
  ModelConfig c = read_llama_like(f, file, "qwen2", {.takes_bias = false});
  c.qkv_bias = true;
  no_windows(f);
  read_windows(f, c, 0);
  return c;
}

ModelConfig read_qwen3(Fields& f, const std::string& file) {
  ModelConfig c = read_llama_like(f, file, "qwen3", {.head_width = 128});
  c.qk_norm = QkNorm::kHead;
  no_windows(f);
  read_windows(f, c, 0);
  return c;
}

}  // namespace

std::vector<Family> llama_families() {
  const auto family = [](const char* name, auto* read, const char* architecture) {
    return Family{name, read, llama_tensor, false, QkvLayout::kApart, {}, "attention_dropout", architecture};
  };
  return {family("llama", read_llama, "LlamaForCausalLM"), family("mistral", read_mistral, "MistralForCausalLM"),
          family("qwen2", read_qwen2, "Qwen2ForCausalLM"), family("qwen3", read_qwen3, "Qwen3ForCausalLM")};
}

}  // namespace sextant
