#include "sextant/model/model.h"

#include <sys/stat.h>

#include <cmath>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/model/file_names.h"
#include "sextant/ops/add.h"
#include "sextant/ops/attention.h"
#include "sextant/ops/dropout.h"
#include "sextant/ops/embedding.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/head.h"
#include "sextant/ops/linear.h"
#include "sextant/ops/residual.h"
#include "sextant/ops/swiglu.h"

namespace sextant {
namespace {

// One layer kind after the other, with the config and the family's file names at hand.
class ModelBuilder {
 public:
  ModelBuilder(const ModelConfig& config, Sizes sizes, ModelPurpose purpose)
      : c_(config),
        sizes_(sizes),
        purpose_(purpose),
        names_(c_.family == "gpt2" ? gpt2_file_names() : llama_file_names()) {}

  Layer embedding() const {
    LayerBuilder b("embed", -1, sizes_);
    int x = b.apply(std::make_shared<Embedding>(), {b.data("ids", DType::kI32), token_table(b)}, "tok");
    if (c_.positions == Positions::kLearned) {
      const int table =
          matrix(b, "positions", "pos.w", {{'T', c_.max_positions}, {'D', c_.width}}, c_.initial_deviation);
      const int positions = b.apply(std::make_shared<Embedding>(), {b.data("positions", DType::kI32), table}, "pos");
      x = b.apply(std::make_shared<Add>(), {x, positions}, "sum");
    }
    if (c_.dropout > 0)
      x = b.apply(std::make_shared<Dropout>(DropoutRule{c_.dropout, "embed.dropout"}),
                  {x, b.data("tokens", DType::kI64)}, "drop");
    return b.finish(x);
  }

  Layer layer(int index) const {
    LayerBuilder b(str("L", index < 10 ? "0" : "", index), index, sizes_);
    const int x = boundary(b);
    // Residual branches start smaller the deeper the model, so that the sum over layers keeps its size (GPT-2).
    const double branch = c_.initial_deviation / std::sqrt(2.0 * static_cast<double>(c_.layers));

    const int n1 = norm(b, "norm1", x, {{'D', c_.width}});
    int q = projection(b, "q", n1, 'H', c_.heads), k = projection(b, "k", n1, 'G', c_.kv_heads);
    const int v = projection(b, "v", n1, 'G', c_.kv_heads);
    if (c_.qk_norm == QkNorm::kHead) {
      q = norm(b, "q_norm", q, {{'K', c_.head_width}});
      k = norm(b, "k_norm", k, {{'K', c_.head_width}});
    } else if (c_.qk_norm == QkNorm::kProjection) {
      q = norm(b, "q_norm", q, {{'H', c_.heads}, {'K', c_.head_width}});
      k = norm(b, "k_norm", k, {{'G', c_.kv_heads}, {'K', c_.head_width}});
    }
    if (c_.positions == Positions::kRotary) {
      const auto rope = std::make_shared<Rope>(c_.rope_theta, c_.rope_scaling);
      const int positions = b.data("positions", DType::kI32);
      q = b.apply(rope, {q, positions}, "q_rope");
      k = b.apply(rope, {k, positions}, "k_rope");
    }
    const int o = b.apply(std::make_shared<Attention>(),
                          {q, k, v, b.data("first", DType::kI32), b.data("last", DType::kI32)}, "attention");
    const int w_out = matrix(b, "out", "out.w", {{'D', c_.width}, {'H', c_.heads}, {'K', c_.head_width}}, branch);
    const int y = b.apply(std::make_shared<Linear>(), {o, w_out}, "out");
    const int x2 = residual(b, "res1", "out", y, x, c_.attention_out_bias);

    const int n2 = norm(b, "norm2", x2, {{'D', c_.width}});
    int f = linear(b, "up", n2, c_.ffn_bias);
    if (c_.ffn == Ffn::kSwiglu)
      f = b.apply(std::make_shared<Swiglu>(), {linear(b, "gate", n2, c_.ffn_bias), f}, "act");
    else
      f = b.apply(std::make_shared<Gelu>(c_.gelu), {f}, "act");
    const int down = b.apply(std::make_shared<Linear>(),
                             {f, matrix(b, "down", "down.w", {{'D', c_.width}, {'F', c_.ffn_width}}, branch)}, "down");
    return b.finish(residual(b, "res2", "down", down, x2, c_.ffn_bias));
  }

  Layer head() const {
    LayerBuilder b("head", -1, sizes_);
    const int x = norm(b, "final_norm", boundary(b), {{'D', c_.width}});
    const int w = c_.tied_head ? token_table(b)
                               : matrix(b, "head", "w", {{'V', c_.vocabulary}, {'D', c_.width}}, c_.initial_deviation);
    if (purpose_ == ModelPurpose::kGenerate) return b.finish(b.apply(std::make_shared<Linear>(), {x, w}, "logits"));
    b.apply(std::make_shared<Head>(), {x, w, b.data("labels", DType::kI32)}, "loss");
    return b.finish(-1);
  }

 private:
  using Dims = std::vector<Extent>;

  int boundary(LayerBuilder& b) const { return b.input("BSD", {sizes_.batch, sizes_.sequence, c_.width}); }

  int token_table(LayerBuilder& b) const {
    Parameter p = make("embed", "weight", "embed.w", {{'V', c_.vocabulary}, {'D', c_.width}}, -1);
    p.initial = {Initial::Kind::kNormal, c_.initial_deviation};
    p.is_matrix = true;
    fold(p, 1, false);
    if (b.name() != "embed")
      p.is_shared = true;
    else
      p.spec.name = "w";
    return b.parameter(std::move(p));
  }

  Parameter make(const std::string& what, const std::string& part, const std::string& name, Dims dims,
                 int layer) const {
    Parameter p;
    p.spec = {.name = name, .dims = std::move(dims)};
    p.file.name = names_.name(what, part, layer);
    return p;
  }

  // Stored shapes are [out, in] with named dims folded; a product's output dims come first.
  void fold(Parameter& p, std::size_t num_out_dims, bool is_product) const {
    std::int64_t out = 1, in = 1;
    for (std::size_t i = 0; i < p.spec.dims.size(); ++i) (i < num_out_dims ? out : in) *= p.spec.dims[i].size;
    p.file.transposed = is_product && names_.transposed;
    p.file.shape = p.spec.dims.size() == num_out_dims ? std::vector{out}
                   : p.file.transposed                ? std::vector{in, out}
                                                      : std::vector{out, in};
  }

  int matrix(LayerBuilder& b, const std::string& what, const std::string& name, Dims dims, double deviation,
             std::size_t num_out_dims = 1) const {
    Parameter p = make(what, "weight", name, std::move(dims), b.index());
    p.initial = {Initial::Kind::kNormal, deviation};
    p.is_matrix = true;
    fold(p, num_out_dims, what != "positions" && what != "head");
    join(p, what);
    return b.parameter(std::move(p));
  }

  int vector(LayerBuilder& b, const std::string& what, const std::string& part, const std::string& name, Dims dims,
             Initial::Kind initial) const {
    Parameter p = make(what, part, name, std::move(dims), b.index());
    p.initial = {initial, 0};
    fold(p, p.spec.dims.size(), false);
    join(p, what);
    return b.parameter(std::move(p));
  }

  // q, k and v as parts of one stored tensor.
  void join(Parameter& p, const std::string& what) const {
    const int part = what == "q" ? 0 : what == "k" ? 1 : what == "v" ? 2 : -1;
    if (!names_.joined_qkv || part < 0) return;
    p.file.part = part, p.file.parts = 3;
    p.file.shape.back() *= 3;
  }

  int norm(LayerBuilder& b, const std::string& what, int x, const Dims& dims) const {
    std::vector<int> in{x, vector(b, what, "weight", what + ".w", dims, Initial::Kind::kOnes)};
    if (c_.norm == NormKind::kLayer) in.push_back(vector(b, what, "bias", what + ".b", dims, Initial::Kind::kZeros));
    return b.apply(std::make_shared<Norm>(c_.norm, c_.norm_epsilon), in, what);
  }

  int projection(LayerBuilder& b, const std::string& what, int x, Dim heads, std::int64_t num_heads) const {
    const Dims out = {{heads, num_heads}, {'K', c_.head_width}};
    std::vector<int> in{x, matrix(b, what, what + ".w", {out[0], out[1], {'D', c_.width}}, c_.initial_deviation, 2)};
    if (c_.qkv_bias) in.push_back(vector(b, what, "bias", what + ".b", out, Initial::Kind::kZeros));
    return b.apply(std::make_shared<Linear>(), in, what);
  }

  int linear(LayerBuilder& b, const std::string& what, int x, bool bias) const {
    std::vector<int> in{x, matrix(b, what, what + ".w", {{'F', c_.ffn_width}, {'D', c_.width}}, c_.initial_deviation)};
    if (bias) in.push_back(vector(b, what, "bias", what + ".b", {{'F', c_.ffn_width}}, Initial::Kind::kZeros));
    return b.apply(std::make_shared<Linear>(), in, what);
  }

  int residual(LayerBuilder& b, const std::string& name, const std::string& what, int y, int r, bool bias) const {
    std::vector<int> in{y, r};
    if (bias) in.push_back(vector(b, what, "bias", what + ".b", {{'D', c_.width}}, Initial::Kind::kZeros));
    const DropoutRule rule{c_.dropout, b.name() + "." + name};
    if (c_.dropout > 0) in.push_back(b.data("tokens", DType::kI64));
    return b.apply(std::make_shared<Residual>(bias, rule), in, name);
  }

  const ModelConfig& c_;
  Sizes sizes_;
  ModelPurpose purpose_;
  FileNames names_;
};

}  // namespace

namespace {

// Sizes beyond any machine end here, before a product of them can overflow.
constexpr double kMostElements = 0x1p50;

void check_sizes(const Layer& layer) {
  for (const LayerTensor& t : layer.tensors) {
    double elements = 1;
    for (const Extent& e : t.spec.dims) elements *= static_cast<double>(e.size);
    if (elements > kMostElements)
      throw InvalidInput(str("tensor ", t.spec.name, " would have ", elements, " elements; at most ", kMostElements,
                             " are planned with"),
                         ExitCode::kDoesNotFit);
  }
}

}  // namespace

std::vector<const Parameter*> Model::parameters() const {
  std::vector<const Parameter*> out;
  for (const Layer& layer : layers)
    for (const Parameter& p : layer.parameters)
      if (!p.is_shared) out.push_back(&p);
  return out;
}

std::int64_t Model::num_parameters() const {
  std::int64_t sum = 0;
  for (const Parameter* p : parameters()) sum += p->spec.elements();
  return sum;
}

Model build_model(const ModelConfig& config, Sizes sizes, ModelPurpose purpose) {
  Model model{config, {}};
  if (purpose == ModelPurpose::kGenerate) model.config.dropout = 0;
  const ModelBuilder builder(model.config, sizes, purpose);
  model.layers.push_back(builder.embedding());
  for (int i = 0; i < config.layers; ++i) model.layers.push_back(builder.layer(i));
  model.layers.push_back(builder.head());
  for (std::size_t i : {std::size_t{0}, std::size_t{1}, model.layers.size() - 1}) check_sizes(model.layers[i]);
  return model;
}

std::vector<FileTensor> file_tensors(const Model& model) {
  std::vector<FileTensor> out;
  for (const Parameter* p : model.parameters())
    if (p->file.part == 0) out.push_back(p->file);
  return out;
}

ModelConfig find_model(const std::string& name_or_path) {
  for (const Preset& preset : model_presets())
    if (preset.name == name_or_path)
      return read_config(parse_json(preset.text, "preset " + preset.name), "preset " + preset.name);
  struct stat info {};
  if (::stat(name_or_path.c_str(), &info) != 0) {
    std::vector<std::string> names;
    for (const Preset& preset : model_presets()) names.push_back(preset.name);
    const std::string near = nearest(name_or_path, names);
    throw InvalidInput(str("model \"", printable(name_or_path), "\": neither a preset nor a file",
                           near.empty() ? "" : str("; did you mean ", near, "?"), " ('sextant presets' lists them)"));
  }
  const std::string path = S_ISDIR(info.st_mode) ? name_or_path + "/config.json" : name_or_path;
  return read_config(parse_json(read_file(path, 1 << 20), path), path);
}

}  // namespace sextant
