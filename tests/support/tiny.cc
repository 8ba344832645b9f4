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

ModelConfig tiny_mixture(bool rich) {
  ModelConfig c = tiny_llama(2, 0);
  c.family = rich ? "qwen3_moe" : "mixtral";
  c.mixture = {
      .experts = 4,
      .expert_width = 12,
      .router = {.top_k = 2, .normalises = !rich},
  };
  c.mixture.make_room();
  if (rich) {
    c.layers = 3;
    c.qk_norm = QkNorm::kHead;
    c.mixture.shared_width = 8, c.mixture.first_dense = 1;
    c.mixture.router.sigmoid = true, c.mixture.router.scale = 1.5;
  }
  return c;
}

namespace {

ModelConfig tiny_neox(double dropout, bool parallel) {
  ModelConfig c = tiny_gpt2(2, dropout);
  c.family = "gpt_neox";
  c.positions = Positions::kRotary;
  c.width = 24, c.head_width = 6, c.rotary_width = 4;
  c.gelu = GeluKind::kErf;
  c.tied_head = false;
  c.parallel_branches = parallel;
  return c;
}

}  // namespace

ModelConfig tiny_of(const std::string& family, double dropout) {
  ModelConfig c = tiny_llama(2, dropout);
  c.family = family;
  if (family == "mistral") {
    c.attention.window = 5;
    c.slides = {true, true};
  } else if (family == "olmo2") {
    c.norm_order = NormOrder::kBehind;
    c.qk_norm = QkNorm::kProjection;
  } else if (family == "gemma2") {
    c.layers = 3;
    c.head_width = 6;
    c.ffn = Ffn::kGeglu;
    c.norm_order = NormOrder::kBoth;
    c.norm_one_more = c.tied_head = true;
    // Caps that bite on scores and logits of this size.
    c.attention = {.scale = 0.45, .softcap = 0.8, .window = 4};
    c.slides = {true, false, true};
    c.head.softcap = 1.5;
    c.embedding_scale = 4;
  } else if (family == "gpt_neox" || family == "gpt_neox_serial") {
    return tiny_neox(dropout, family == "gpt_neox");
  } else {  // mpt, mpt_alibi
    c = tiny_gpt2(2, dropout);
    c.family = "mpt";
    c.gelu = GeluKind::kErf;
    if (family == "mpt_alibi") {
      c.positions = Positions::kAlibi;
      c.attention.alibi = true;
      c.heads = c.kv_heads = 3, c.width = 18, c.head_width = 6;  // no power of two
      c.qkv_bias = c.attention_out_bias = c.ffn_bias = c.norm_bias = false;
    }
  }
  return c;
}

}  // namespace sextant
