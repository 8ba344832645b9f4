// Families: a config.json of Hugging Face mapped onto ModelConfig.
#include "sextant/base/errors.h"
#include "sextant/base/fields.h"
#include "sextant/model/file_names.h"
#include "sextant/model/model.h"

namespace sextant {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31, kMostLayers = 2048;

// Fields that say nothing about what is computed in training.
void skip_unrelated(Fields& f) {
  for (const char* key : {"architectures",
                          "model_type",
                          "_name_or_path",
                          "_source",
                          "_parameters_total",
                          "_note",
                          "torch_dtype",
                          "dtype",
                          "transformers_version",
                          "use_cache",
                          "bos_token_id",
                          "eos_token_id",
                          "pad_token_id",
                          "unk_token_id",
                          "is_decoder",
                          "pretraining_tp",
                          "auto_map",
                          "task_specific_params",
                          "return_dict",
                          "output_attentions",
                          "output_hidden_states",
                          "gradient_checkpointing",
                          "n_ctx",
                          "summary_type",
                          "summary_use_proj",
                          "summary_activation",
                          "summary_first_dropout",
                          "summary_proj_to_labels",
                          "max_window_layers",
                          "layer_types"})
    f.known(key);
}

GeluKind gelu_kind(Fields& f, const char* key) {
  const std::string name = f.one_of(key, {"gelu_new", "gelu_pytorch_tanh", "gelu"});
  return name == "gelu" ? GeluKind::kErf : GeluKind::kTanh;
}

void must_be_off(Fields& f, const char* key) {
  if (f.number_or(key, 0, 0, 1) != 0) f.fail(key, "attention dropout is not offered; set it to 0");
}

ModelConfig read_gpt2(Fields& f) {
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
  c.gelu = gelu_kind(f, "activation_function");
  c.norm_epsilon = f.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  c.tied_head = f.boolean_or("tie_word_embeddings", true);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  c.dropout = f.number_or("resid_pdrop", 0, 0, 0.95);
  if (f.number_or("embd_pdrop", c.dropout, 0, 0.95) != c.dropout) f.fail("embd_pdrop", "must equal resid_pdrop");
  must_be_off(f, "attn_pdrop");
  if (!f.boolean_or("scale_attn_weights", true)) f.fail("scale_attn_weights", "only true is offered");
  if (f.boolean_or("scale_attn_by_inverse_layer_idx", false))
    f.fail("scale_attn_by_inverse_layer_idx", "only false is offered");
  if (f.boolean_or("reorder_and_upcast_attn", false)) f.fail("reorder_and_upcast_attn", "only false is offered");
  c.positions = Positions::kLearned;
  c.ffn = Ffn::kGelu;
  c.norm = NormKind::kLayer;
  c.qkv_bias = c.attention_out_bias = c.ffn_bias = true;
  return c;
}

RopeScaling read_rope_scaling(Fields& f, const std::string& file) {
  RopeScaling s;
  if (!f.has("rope_scaling")) return f.known("rope_scaling"), s;
  f.known("rope_scaling");
  Fields r(f.member("rope_scaling"), file, "rope_scaling");
  r.known("type");
  r.one_of("rope_type", {"llama3"});
  s.factor = r.number("factor", 1, 1e6);
  s.low_frequency = r.number("low_freq_factor", 1e-6, 1e6);
  s.high_frequency = r.number("high_freq_factor", s.low_frequency, 1e6);
  s.original_length = r.number("original_max_position_embeddings", 1, 1e9);
  r.finish();
  return s;
}

// llama, qwen2 and qwen3 differ in biases and in the norms of q and k.
ModelConfig read_llama(Fields& f, const std::string& family, const std::string& file) {
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
  c.rope_theta = f.number_or("rope_theta", 1e4, 1, 1e12);
  c.rope_scaling = read_rope_scaling(f, file);
  c.norm_epsilon = f.number_or("rms_norm_eps", 1e-6, 0, 1);
  f.one_of_or("hidden_act", "silu", {"silu"});
  c.tied_head = f.boolean_or("tie_word_embeddings", false);
  c.initial_deviation = f.number_or("initializer_range", 0.02, 0, 10);
  must_be_off(f, "attention_dropout");
  const bool attention_bias = f.boolean_or("attention_bias", false);
  c.qkv_bias = attention_bias || family == "qwen2";
  c.attention_out_bias = attention_bias;
  c.ffn_bias = f.boolean_or("mlp_bias", false);
  if (family == "qwen3") c.qk_norm = QkNorm::kHead;
  if (f.boolean_or("use_sliding_window", false))
    f.fail("use_sliding_window", "windows are not offered; set it to false");
  f.known("sliding_window");
  return c;
}

std::string gpt2_name(const std::string& what, const std::string& part, int layer) {
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

std::string llama_name(const std::string& what, const std::string& part, int layer) {
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

}  // namespace

FileNames gpt2_file_names() { return {gpt2_name, true, true}; }
FileNames llama_file_names() { return {llama_name, false, false}; }

std::vector<std::string> families() { return {"gpt2", "llama", "qwen2", "qwen3"}; }

ModelConfig read_config(const Value& json, const std::string& file) {
  Fields f(&json, file, "");
  const std::string family = f.one_of("model_type", families());
  ModelConfig config = family == "gpt2" ? read_gpt2(f) : read_llama(f, family, file);
  config.trained_sequence = f.integer_or("_trained_sequence", config.max_positions, 1, config.max_positions);
  skip_unrelated(f);
  f.finish();
  config.source = json;
  return config;
}

}  // namespace sextant
