// gpt-oss (OpenAI 2025): a mixture in every layer, biases, sinks, every second layer slides.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read(Fields& f, const std::string& file) {
  ModelConfig c;
  c.family = "gpt_oss";
  c.width = f.integer("hidden_size", 1, kMost);
  c.layers = f.integer("num_hidden_layers", 1, kMostLayers);
  c.heads = f.integer("num_attention_heads", 1, kMost);
  c.kv_heads = f.integer("num_key_value_heads", 1, c.heads);
  if (c.heads % c.kv_heads != 0)
    f.fail("num_key_value_heads", str("found ", c.kv_heads, ", which does not divide num_attention_heads = ", c.heads));
  c.head_width = f.integer("head_dim", 2, kMost);
  c.ffn_width = f.integer("intermediate_size", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  c.max_positions = f.integer("max_position_embeddings", 1, kMost);
  if (!f.member("rope_scaling") && !f.member("rope_parameters"))
    f.fail("rope_scaling", "is missing, expected how positions are stretched (null for not at all)");
  read_rope(f, file, c, {.yarn = true, .theta = 150000});
  c.norm_epsilon = f.number_or("rms_norm_eps", 1e-5, 0, 1);
  f.one_of_or("hidden_act", "silu", {"silu"});
  c.tied_head = f.boolean_or("tie_word_embeddings", false);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.attention_dropout = f.number_or("attention_dropout", 0, 0, 0.95);
  c.qkv_bias = c.attention_out_bias = f.boolean_or("attention_bias", true);
  c.attention.sinks = true;
  c.ffn = Ffn::kClampedSwiglu;
  if (f.number_or("swiglu_limit", 7, 0, 1e6) != 7) f.fail("swiglu_limit", "only 7 is offered");
  if (f.number_or("swiglu_alpha", 1.702, 0, 1e6) != 1.702) f.fail("swiglu_alpha", "only 1.702 is offered");
  MixtureConfig& m = c.mixture;
  m.experts = f.integer("num_local_experts", 1, 1 << 20);
  m.expert_width = c.ffn_width;
  m.router.top_k = f.integer("num_experts_per_tok", 1, m.experts);
  m.router.normalises = true;
  read_balance(f, c);
  m.biases = true;
  for (const char* key : {"experts_per_token", "quantization_config", "initial_context_length"}) f.known(key);
  read_windows(f, c, 2, 128);
  return c;
}

}  // namespace

std::vector<Family> gpt_oss_families() { return {{"gpt_oss", read}}; }

}  // namespace sextant
