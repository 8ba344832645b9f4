// GPT-2 and GPT-3 (Radford et al. 2019).
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read(Fields& f, const std::string&) {
  ModelConfig c;
  c.family = "gpt2";
  c.width = f.integer("n_embd", 1, kMost);
  c.layers = f.integer("n_layer", 1, kMostLayers);
  c.heads = c.kv_heads = f.integer("n_head", 1, c.width);
  c.max_positions = f.integer("n_positions", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  c.ffn_width = f.integer_or("n_inner", 4 * c.width, 1, kMost);
  if (c.width % c.heads != 0) f.fail("n_head", str("found ", c.heads, ", which does not divide n_embd = ", c.width));
  c.head_width = c.width / c.heads;
  c.gelu = gelu_kind(f, "activation_function", "gelu_new");
  c.norm_epsilon = f.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  c.tied_head = f.boolean_or("tie_word_embeddings", true);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.dropout = f.number_or("resid_pdrop", 0, 0, 0.95);
  if (f.number_or("embd_pdrop", c.dropout, 0, 0.95) != c.dropout) f.fail("embd_pdrop", "must equal resid_pdrop");
  c.attention_dropout = f.number_or("attn_pdrop", 0, 0, 0.95);
  must_be(f, "scale_attn_weights", true);
  must_be(f, "scale_attn_by_inverse_layer_idx", false);
  must_be(f, "reorder_and_upcast_attn", false);
  c.positions = Positions::kLearned;
  c.ffn = Ffn::kGelu;
  c.norm = NormKind::kLayer;
  c.qkv_bias = c.attention_out_bias = c.ffn_bias = true;
  return c;
}

std::string tensor(const std::string& what, const std::string& part, int layer) {
  const std::string at = str("transformer.h.", layer, ".");
  if (what == "embed") return "transformer.wte.weight";
  if (what == "positions") return "transformer.wpe.weight";
  if (what == "head") return "lm_head.weight";
  if (what == "final_norm") return "transformer.ln_f." + part;
  if (what == "norm1") return at + "ln_1." + part;
  if (what == "norm2") return at + "ln_2." + part;
  if (what == "q" || what == "k" || what == "v") return at + "attn.c_attn." + part;
  if (what == "out") return at + "attn.c_proj." + part;
  if (what == "up") return at + "mlp.c_fc." + part;
  check(what == "down", "a tensor has a place in gpt2 files");
  return at + "mlp.c_proj." + part;
}

}  // namespace

std::vector<Family> gpt2_families() {
  return {
      {"gpt2", read, tensor, true, QkvLayout::kJoined, {"resid_pdrop", "embd_pdrop"}, "attn_pdrop", "GPT2LMHeadModel"}};
}

}  // namespace sextant
