// A config.json of Hugging Face mapped onto ModelConfig: what all families share. Their own are in family_*.cc.
#include <algorithm>

#include "sextant/base/errors.h"
#include "sextant/model/family.h"

namespace sextant {
namespace {

const std::vector<Family>& all_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> out;
    for (const auto& some :
         {gpt2_families(), llama_families(), olmo2_families(), gemma2_families(), gpt_neox_families(), mpt_families(),
          mixture_families(), deepseek_families(), gpt_oss_families()})
      out.insert(out.end(), some.begin(), some.end());
    return out;
  }();
  return all;
}

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
                          "transformers.js_config",
                          "is_llama_config",
                          "unsloth_fixed",
                          "output_past",
                          "_num_labels",
                          "id2label",
                          "label2id",
                          "_tokenizer",
                          "tokenizer_class",
                          "vocab_file",
                          "mtp_loss_weight"})
    f.known(key);
  // What some files say though it is so anyway.
  for (const char* key : {"use_mrope", "add_cross_attention", "rope_interleaved"})
    if (f.member(key)) must_be(f, key, false);
  f.known("use_bidirectional_attention");
  if (f.has("use_bidirectional_attention")) must_be(f, "use_bidirectional_attention", false);
}

}  // namespace

bool ModelConfig::is_mixture(std::int64_t layer) const {
  return mixture.experts > 0 && layer >= mixture.first_dense &&
         (layer + 1 - mixture.first_dense) % mixture.period == 0 &&
         std::find(mixture.also_dense.begin(), mixture.also_dense.end(), layer) == mixture.also_dense.end();
}

bool ModelConfig::has_dense_ffn() const {
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (!is_mixture(layer)) return true;
  return false;
}

int ModelConfig::layer_kind(std::int64_t layer) const {
  const bool windowed = !slides.empty() && slides[static_cast<std::size_t>(layer)];
  return (is_mixture(layer) ? 2 : 0) + (windowed ? 1 : 0);
}

std::string ModelConfig::not_trained() const {
  if (latent.kv_rank > 0) return "latent attention is lowered and counted by this build, not trained yet";
  if (attention.sinks || mixture.biases)
    return "attention sinks and biases of experts are lowered and counted by this build, not trained yet";
  if (mixture.router.auxiliary > 0 || mixture.router.groups > 1)
    return "balance losses and groups of experts are lowered and counted by this build, not trained yet";
  if (mtp_depth > 0) return "further tokens are priced only; leave mtp_depth out";
  if (attention_core == AttentionCore::kUnfused || stored_masks || head.stored_logits ||
      norm_kernel == NormKernel::kSeveral || product_type == ProductType::kFp8)
    return "unfused attention and norms, stored masks and logits, and fp8 are priced only; leave attention_core, "
           "norms, masks, logits and products out";
  if (attention_dropout > 0)
    return str("attention dropout (", attention_dropout,
               " in its config) is not offered; set model.attention_dropout = 0");
  return "";
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const Family& family : all_families()) names.push_back(family.name);
  return names;
}

const Family& family_of(const ModelConfig& config) {
  for (const Family& family : all_families())
    if (family.name == config.family) return family;
  throw InternalError("a config is of a known family: " + config.family);
}

GeluKind gelu_kind(Fields& f, const char* key, const char* otherwise) {
  const std::string name = f.one_of_or(key, otherwise, {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu"});
  return name == "gelu" ? GeluKind::kErf : GeluKind::kTanh;
}

void read_balance(Fields& f, ModelConfig& c) {
  const double weight = f.number_or("router_aux_loss_coef", 0, 0, 1e3);
  if (f.boolean_or("output_router_logits", false)) c.mixture.router.auxiliary = weight;
}

void must_be(Fields& f, const char* key, bool value) {
  if (f.boolean_or(key, value) != value) f.fail(key, str("only ", value ? "true" : "false", " is offered"));
}

double number_or_none(Fields& f, const char* key, double otherwise) {
  f.known(key);
  if (!f.member(key)) return otherwise;
  return f.has(key) ? f.number(key, 0, 1e12) : 0;
}

double read_rope(Fields& f, const std::string& file, ModelConfig& c, RopeTakes takes) {
  double part = -1;
  c.rope_theta = f.number_or("rope_theta", takes.theta, 1, 1e12);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    f.known(key);
    if (!f.has(key)) continue;
    Fields r(f.member(key), file, key);
    c.rope_theta = r.number_or("rope_theta", c.rope_theta, 1, 1e12);
    r.known("partial_rotary_factor");
    if (r.has("partial_rotary_factor")) {
      part = r.number("partial_rotary_factor", 0, 1);
      if (!takes.part && part != 1) r.fail("partial_rotary_factor", "heads of this family turn as a whole");
    }
    const std::string kind_key = r.has("rope_type") || !r.has("type") ? "rope_type" : "type";
    r.known("type"), r.known("rope_type");
    std::vector<std::string> kinds{"default", "llama3"};
    if (takes.yarn) kinds.emplace_back("yarn");
    const std::string kind = r.one_of_or(kind_key, "default", kinds);
    if (kind != "default") {
      RopeScaling& s = c.rope_scaling;
      s.factor = r.number("factor", 1, 1e6);
      s.original_length = r.number("original_max_position_embeddings", 1, 1e9);
      if (kind == "llama3") {
        s.low_frequency = r.number("low_freq_factor", 1e-6, 1e6);
        s.high_frequency = r.number("high_freq_factor", s.low_frequency, 1e6);
      } else {
        s.kind = RopeScaling::Kind::kYarn;
        for (const char* more : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "attention_factor"})
          r.known(more);
      }
    }
    r.finish();
  }
  return part;
}

void read_windows(Fields& f, ModelConfig& c, std::int64_t period, std::int64_t otherwise) {
  c.attention.window = otherwise;
  f.known("sliding_window");
  if (f.member("sliding_window"))
    c.attention.window = f.has("sliding_window") ? f.integer("sliding_window", 1, kMost) : 0;
  if (period == 0) c.attention.window = 0;
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < c.layers; ++i) slides.push_back(period > 0 && i % period == 0);
  f.known("layer_types");
  if (f.has("layer_types")) {
    const std::vector<std::string> types = f.texts("layer_types");
    if (static_cast<std::int64_t>(types.size()) != c.layers)
      f.fail("layer_types", str("has ", types.size(), " entries, the model ", c.layers, " layers"));
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] != "sliding_attention" && types[i] != "full_attention")
        f.fail("layer_types", str("found \"", printable(types[i], 40), "\", known: sliding_attention, full_attention"));
      slides[i] = types[i] == "sliding_attention";
      if (slides[i] && c.attention.window == 0)
        f.fail("layer_types", str("layer ", i, " slides, but there is no window"));
    }
  }
  if (c.attention.window > 0) c.slides = std::move(slides);
}

ModelConfig read_config(const Value& json, const std::string& file) {
  Fields f(&json, file, "");
  const std::string name = f.one_of("model_type", families());
  const auto family =
      std::find_if(all_families().begin(), all_families().end(), [&](const Family& x) { return x.name == name; });
  ModelConfig config = family->read(f, file);
  config.trained_sequence = f.integer_or("_trained_sequence", config.max_positions, 1, config.max_positions);
  skip_unrelated(f);
  f.finish();
  config.source = json;
  return config;
}

Value config_to_write(const ModelConfig& config, DType dtype) {
  const Family& family = family_of(config);
  Value out{Value::Object{}};
  for (const Member& m : std::get<Value::Object>(config.source.data))
    if (m.key[0] != '_' && m.key != "dtype" && m.key != "torch_dtype") out.set(m.key, m.value);
  for (const std::string& key : family.dropout_keys)
    if (config.dropout != 0 || out.find(key)) out.set(key, config.dropout);
  const std::size_t dot = family.attention_dropout_key.find('.');
  if (dot == std::string::npos) {
    if (out.find(family.attention_dropout_key)) out.set(family.attention_dropout_key, config.attention_dropout);
  } else if (const Value* inner = out.find(family.attention_dropout_key.substr(0, dot))) {
    Value changed = *inner;
    const std::string key = family.attention_dropout_key.substr(dot + 1);
    if (changed.find(key)) changed.set(key, config.attention_dropout);
    out.set(family.attention_dropout_key.substr(0, dot), std::move(changed));
  }
  if (!out.find("architectures") && !family.architecture.empty())
    out.set("architectures", Value::Array{Value(family.architecture)});
  out.set("torch_dtype", dtype == DType::kF64 ? "float64" : "float32");
  return out;
}

}  // namespace sextant
