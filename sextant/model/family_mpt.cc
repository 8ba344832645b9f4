// MPT (MosaicML 2023): learned positions or ALiBi, with or without biases.
#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

ModelConfig read(Fields& f, const std::string& file) {
  ModelConfig c;
  c.family = "mpt";
  c.width = f.integer("d_model", 1, kMost);
  c.layers = f.integer("n_layers", 1, kMostLayers);
  c.heads = c.kv_heads = f.integer("n_heads", 1, kMost);
  if (c.width % c.heads != 0) f.fail("n_heads", str("found ", c.heads, ", which does not divide d_model = ", c.width));
  c.head_width = c.width / c.heads;
  const double expansion = f.number_or("expansion_ratio", 4, 1, 1024);  // some files have 4.0
  c.ffn_width = static_cast<std::int64_t>(expansion * static_cast<double>(c.width));
  c.max_positions = f.integer("max_seq_len", 1, kMost);
  c.vocabulary = f.integer("vocab_size", 1, kMost);
  const bool biases = !f.boolean_or("no_bias", true);
  c.qkv_bias = c.attention_out_bias = c.ffn_bias = c.norm_bias = biases;
  c.tied_head = f.boolean_or("tie_word_embeddings", true);
  if (!c.tied_head) f.fail("tie_word_embeddings", "MPT's head is its embedding; set it to true");
  c.dropout = f.number_or("resid_pdrop", 0, 0, 0.95);
  if (f.number_or("emb_pdrop", c.dropout, 0, 0.95) != c.dropout) f.fail("emb_pdrop", "must equal resid_pdrop");
  f.one_of_or("norm_type", "low_precision_layernorm", {"low_precision_layernorm", "layernorm"});
  if (f.number_or("logit_scale", 0, 0, 1e9) != 0) f.fail("logit_scale", "is not offered; leave it out");
  if (f.number_or("embedding_fraction", 1, 0, 1) != 1) f.fail("embedding_fraction", "only 1 is offered");
  for (const char* key : {"init_device", "init_config", "verbose", "use_cache", "initializer_range", "tokenizer_name"})
    f.known(key);
  c.norm_epsilon = f.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  bool alibi = true;
  f.known("attn_config");
  if (f.has("attn_config")) {
    Fields a(f.member("attn_config"), file, "attn_config");
    alibi = a.boolean_or("alibi", true);
    if (a.integer_or("alibi_bias_max", 8, 1, 1024) != 8) a.fail("alibi_bias_max", "only 8 is offered");
    c.attention_dropout = a.number_or("attn_pdrop", 0, 0, 0.95);
    if (a.number_or("clip_qkv", 0, 0, 1e9) != 0) a.fail("clip_qkv", "clipping is not offered; set it to null");
    must_be(a, "qk_ln", false);
    must_be(a, "prefix_lm", false);
    must_be(a, "attn_uses_sequence_id", false);
    c.attention.scale = a.number_or("softmax_scale", 0, 0, 1e9);
    a.one_of_or("attn_type", "multihead_attention", {"multihead_attention"});
    a.known("attn_impl");
    a.known("model_type");
    a.finish();
  }
  if (f.boolean_or("learned_pos_emb", true) == false && !alibi)
    f.fail("learned_pos_emb", "a model without learned positions and without ALiBi is not offered");
  c.positions = alibi ? Positions::kAlibi : Positions::kLearned;
  c.attention.alibi = alibi;
  c.norm = NormKind::kLayer;
  c.ffn = Ffn::kGelu;
  c.gelu = GeluKind::kErf;
  return c;
}

std::string tensor(const std::string& what, const std::string& part, int layer) {
  const std::string at = str("transformer.blocks.", layer, ".");
  if (what == "embed") return "transformer.wte.weight";
  if (what == "head") return "lm_head.weight";
  if (what == "positions") return "transformer.wpe.weight";
  if (what == "final_norm") return "transformer.norm_f." + part;
  if (what == "norm1") return at + "norm_1." + part;
  if (what == "norm2") return at + "norm_2." + part;
  if (what == "q" || what == "k" || what == "v") return at + "attn.Wqkv." + part;
  if (what == "out") return at + "attn.out_proj." + part;
  if (what == "up") return at + "ffn.up_proj." + part;
  check(what == "down", "a tensor has a place in mpt files");
  return at + "ffn.down_proj." + part;
}

}  // namespace

std::vector<Family> mpt_families() {
  return {{"mpt",
           read,
           tensor,
           false,
           QkvLayout::kJoined,
           {"resid_pdrop", "emb_pdrop"},
           "attn_config.attn_pdrop",
           "MPTForCausalLM"}};
}

}  // namespace sextant
