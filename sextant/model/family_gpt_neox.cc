// GPT-NeoX and Pythia (Black et al. 2022, Biderman et al. 2023): attention and ffn side by side, a part of each head
// turns.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read(Fields& f, const std::string& file) {
  ModelConfig c;
  c.family = "gpt_neox";
  c.width = f.integer("hidden_size", 1, kMost);
  c.layers = f.integer("num_hidden_layers", 1, kMostLayers);
  c.heads = c.kv_heads = f.integer("num_attention_heads", 1, kMost);
  if (c.width % c.heads != 0)
    f.fail("num_attention_heads", str("found ", c.heads, ", which does not divide hidden_size = ", c.width));
  c.head_width = c.width / c.heads;
  c.ffn_width = f.integer("intermediate_size", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  c.max_positions = f.integer("max_position_embeddings", 1, kMost);
  // The older names count where `rope_parameters` does not say it.
  const double base = f.number_or("rotary_emb_base", 1e4, 1, 1e12), older = f.number_or("rotary_pct", 0.25, 0, 1);
  const double newer = read_rope(f, file, c, {.part = true, .theta = base});
  const double share = newer >= 0 ? newer : f.number_or("partial_rotary_factor", older, 0, 1);
  f.known("partial_rotary_factor");
  c.rotary_width = static_cast<std::int64_t>(share * static_cast<double>(c.head_width));
  if (c.rotary_width < 2 || c.rotary_width % 2 != 0)
    f.fail("rotary_pct", str("turns ", c.rotary_width, " of the ", c.head_width,
                             " elements of a head; an even number from 2 on is needed"));
  c.norm_epsilon = f.number_or("layer_norm_eps", 1e-5, 0, 1);
  c.gelu = gelu_kind(f, "hidden_act", "gelu");
  c.tied_head = f.boolean_or("tie_word_embeddings", false);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.dropout = f.number_or("hidden_dropout", 0, 0, 0.95);
  c.attention_dropout = f.number_or("attention_dropout", 0, 0, 0.95);
  f.known("classifier_dropout");
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
    if (f.number_or(key, 0, 0, 1) != 0) f.fail(key, "is not this family's name; use hidden_dropout, attention_dropout");
  c.parallel_branches = f.boolean_or("use_parallel_residual", true);
  c.qkv_bias = c.attention_out_bias = f.boolean_or("attention_bias", true);
  c.ffn_bias = true;
  c.norm = NormKind::kLayer;
  c.ffn = Ffn::kGelu;
  return c;
}

std::string tensor(const std::string& what, const std::string& part, int layer) {
  const std::string at = str("gpt_neox.layers.", layer, ".");
  if (what == "embed") return "gpt_neox.embed_in.weight";
  if (what == "head") return "embed_out.weight";
  if (what == "final_norm") return "gpt_neox.final_layer_norm." + part;
  if (what == "norm1") return at + "input_layernorm." + part;
  if (what == "norm2") return at + "post_attention_layernorm." + part;
  if (what == "q" || what == "k" || what == "v") return at + "attention.query_key_value." + part;
  if (what == "out") return at + "attention.dense." + part;
  if (what == "up") return at + "mlp.dense_h_to_4h." + part;
  check(what == "down", "a tensor has a place in gpt_neox files");
  return at + "mlp.dense_4h_to_h." + part;
}

}  // namespace

std::vector<Family> gpt_neox_families() {
  return {{"gpt_neox",
           read,
           tensor,
           false,
           QkvLayout::kByHead,
           {"hidden_dropout"},
           "attention_dropout",
           "GPTNeoXForCausalLM"}};
}

}  // namespace sextant
