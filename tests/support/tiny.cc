#include "tests/support/tiny.h"

namespace sextant {

ModelConfig tiny_gpt2(std::int64_t layers, double dropout) {
  ModelConfig c;
  c.family = "gpt2";
  c.layers = layers, c.width = 16, c.heads = c.kv_heads = 4, c.head_width = 4, c.ffn_width = 60, c.vocabulary = 37,
  c.max_positions = 16;
  c.positions = Positions::kLearned, c.ffn = Ffn::kGelu, c.norm = NormKind::kLayer;
  c.qkv_bias = c.attention_out_bias = c.ffn_bias = c.tied_head = true;
  c.initial_deviation = 0.2;  // large enough that every gradient matters
  c.dropout = dropout;
  return c;
}

ModelConfig tiny_llama(std::int64_t layers, double dropout, bool tied) {
  ModelConfig c;
  c.family = "llama";
  c.layers = layers, c.width = 16, c.heads = 4, c.kv_heads = 2, c.head_width = 4, c.ffn_width = 44, c.vocabulary = 37,
  c.max_positions = 16;
  c.initial_deviation = 0.2;
  c.dropout = dropout;
  c.tied_head = tied;
  return c;
}

ModelConfig tiny_qwen3(std::int64_t layers) {
  ModelConfig c = tiny_llama(layers);
  c.family = "qwen3";
  c.qk_norm = QkNorm::kHead;
  return c;
}

}  // namespace sextant
