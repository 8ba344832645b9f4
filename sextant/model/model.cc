#include "sextant/model/model.h"

#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/model/family.h"
#include "sextant/ops/add.h"
#include "sextant/ops/attention.h"
#include "sextant/ops/clamped_swiglu.h"
#include "sextant/ops/combine.h"
#include "sextant/ops/dispatch.h"
#include "sextant/ops/dropout.h"
#include "sextant/ops/embedding.h"
#include "sextant/ops/expert_bias.h"
#include "sextant/ops/geglu.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/grouped_linear.h"
#include "sextant/ops/head.h"
#include "sextant/ops/latent_attention.h"
#include "sextant/ops/linear.h"
#include "sextant/ops/residual.h"
#include "sextant/ops/router.h"
#include "sextant/ops/softcap.h"
#include "sextant/ops/swiglu.h"
#include "sextant/ops/unfused_attention.h"

namespace sextant {
namespace {

// One layer kind after the other, with the config and the family's file names at hand.
class ModelBuilder {
 public:
  ModelBuilder(const ModelConfig& config, Sizes sizes, ModelPurpose purpose)
      : c_(config),
        sizes_(sizes),
        purpose_(purpose),
        family_(family_of(config)),
        // Residual branches start smaller the deeper the model, so that the sum over layers keeps its size (GPT-2).
        branch_deviation_(config.initial_deviation / std::sqrt(2.0 * static_cast<double>(config.layers))) {}

  Layer embedding() const {
    LayerBuilder b("embed", -1, sizes_);
    int x =
        b.apply(std::make_shared<Embedding>(c_.embedding_scale), {b.data("ids", DType::kI32), token_table(b)}, "tok");
    if (c_.positions == Positions::kLearned) {
      const int table =
          matrix(b, "positions", "pos.w", {{'T', c_.max_positions}, {'D', c_.width}}, c_.initial_deviation);
      const int positions = b.apply(std::make_shared<Embedding>(), {b.data("positions", DType::kI32), table}, "pos");
      x = b.apply(std::make_shared<Add>(), {x, positions}, "sum");
    }
    if (c_.dropout > 0)
      x = b.apply(std::make_shared<Dropout>(DropoutRule{c_.dropout, "embed.dropout", c_.stored_masks}),
                  {x, b.data("tokens", DType::kI64)}, "drop");
    return b.finish(x);
  }

  Layer layer(int index) const {
    Layer layer = build_layer(index);
    // Masks of dropout go by the layer's name.
    if (c_.dropout == 0 && c_.attention_dropout == 0) layer.like = c_.layer_kind(index);
    return layer;
  }

  Layer build_layer(int index) const {
    LayerBuilder b(str("L", index < 10 ? "0" : "", index), index, sizes_);
    return b.finish(block(b, boundary(b), c_.is_mixture(index)));
  }

  int block(LayerBuilder& b, int x, bool is_mixture) const {
    const int attended =
        c_.latent.kv_rank > 0 ? latent_attention(b, before(b, "norm1", x)) : attention(b, before(b, "norm1", x));
    if (c_.parallel_branches) {
      const int fed = ffn(b, before(b, "norm2", x));
      const int both = b.apply(std::make_shared<Add>(), {attended, fed}, "branches");
      return residual(b, "res", both, x, {c_.attention_out_bias ? "out" : "", c_.ffn_bias ? "down" : ""});
    }
    const int x2 = residual(b, "res1", behind(b, "norm1_behind", attended), x, {c_.attention_out_bias ? "out" : ""});
    const int n2 = before(b, "norm2", x2);
    const int fed = behind(b, "norm2_behind", is_mixture ? mixture(b, n2) : ffn(b, n2));
    return residual(b, "res2", fed, x2, {c_.ffn_bias && !is_mixture ? "down" : ""});
  }

  Layer head() const {
    LayerBuilder b("head", -1, sizes_);
    const int hidden = boundary(b), x = norm(b, "final_norm", hidden, {{'D', c_.width}});
    const int table = c_.tied_head || predicts_further() ? token_table(b) : -1;
    const int w =
        c_.tied_head ? table : matrix(b, "head", "w", {{'V', c_.vocabulary}, {'D', c_.width}}, c_.initial_deviation);
    if (purpose_ == ModelPurpose::kGenerate) {
      int logits = b.apply(std::make_shared<Linear>(c_.product_type), {x, w}, "logits");
      if (c_.head.softcap > 0) logits = b.apply(std::make_shared<Softcap>(c_.head.softcap), {logits}, "capped");
      return b.finish(logits);
    }
    b.apply(std::make_shared<Head>(c_.head), {x, w, b.data("labels", DType::kI32)}, "loss");
    if (predicts_further()) {
      const int further = norm(b, "mtp_final_norm", further_token(b, hidden, table), {{'D', c_.width}});
      b.apply(std::make_shared<Head>(c_.head), {further, w, b.data("labels_further", DType::kI32)}, "mtp_loss");
    }
    return b.finish(-1);
  }

 private:
  using Dims = std::vector<Extent>;

  bool predicts_further() const { return c_.mtp_depth > 0 && purpose_ == ModelPurpose::kTrain; }

  // The hidden state that predicts the token behind the next one: a layer over that of the next one and the embedding
  // of what comes next (DeepSeek-V3, section 2.2). The product of both, joined, is the sum of a product of each.
  int further_token(LayerBuilder& b, int hidden, int table) const {
    const int token = b.apply(std::make_shared<Embedding>(c_.embedding_scale),
                              {b.data("ids_further", DType::kI32), table}, "mtp_token");
    const auto part = [&](const std::string& what, int x) {
      const int n = norm(b, "mtp_norm_" + what, x, {{'D', c_.width}});
      const int p =
          matrix(b, "mtp_" + what, "mtp_" + what + ".w", {{'Y', c_.width}, {'D', c_.width}}, c_.initial_deviation);
      return b.apply(std::make_shared<Linear>(c_.product_type, 'D'), {n, p}, "mtp_" + what);
    };
    const int both = b.apply(std::make_shared<Add>(), {part("hidden", hidden), part("token", token)}, "mtp_in");
    return block(b, both, c_.is_mixture(c_.layers));
  }

  // A branch's input as it reads it, and its result as it is added.
  int before(LayerBuilder& b, const std::string& what, int x) const {
    return c_.norm_order == NormOrder::kBehind ? x : norm(b, what, x, {{'D', c_.width}});
  }
  int behind(LayerBuilder& b, const std::string& what, int y) const {
    return c_.norm_order == NormOrder::kBefore ? y : norm(b, what, y, {{'D', c_.width}});
  }

  int core(LayerBuilder& b, int q, int k, int v) const {
    if (c_.attention_core == AttentionCore::kUnfused) {
      const int scores = b.apply(std::make_shared<Scores>(), {q, k}, "scores");
      int p = b.apply(std::make_shared<Softmax>(), {scores}, "softmax");
      if (c_.attention_dropout > 0) {
        const DropoutRule rule{c_.attention_dropout, b.name() + ".weights", c_.stored_masks};
        p = b.apply(std::make_shared<Dropout>(rule), {p, b.data("tokens", DType::kI64)}, "weights");
      }
      return b.apply(std::make_shared<Context>(), {p, v}, "attention");
    }
    std::vector<int> in{q, k, v, b.data("first", DType::kI32), b.data("last", DType::kI32)};
    if (c_.attention.sinks)
      in.push_back(vector(b, "sinks", "weight", "sinks", {{'H', c_.heads}}, Initial::Kind::kZeros));
    return b.apply(std::make_shared<Attention>(attention_rule(b.index())), in, "attention");
  }

  AttentionRule attention_rule(int layer) const {
    AttentionRule rule = c_.attention;
    if (layer < 0 || c_.slides.empty() || !c_.slides[static_cast<std::size_t>(layer)]) rule.window = 0;
    return rule;
  }

  int attention(LayerBuilder& b, int x) const {
    int q = projection(b, "q", x, 'H', c_.heads), k = projection(b, "k", x, 'G', c_.kv_heads);
    const int v = projection(b, "v", x, 'G', c_.kv_heads);
    if (c_.qk_norm == QkNorm::kHead) {
      q = norm(b, "q_norm", q, {{'K', c_.head_width}});
      k = norm(b, "k_norm", k, {{'K', c_.head_width}});
    } else if (c_.qk_norm == QkNorm::kProjection) {
      q = norm(b, "q_norm", q, {{'H', c_.heads}, {'K', c_.head_width}});
      k = norm(b, "k_norm", k, {{'G', c_.kv_heads}, {'K', c_.head_width}});
    }
    if (c_.positions == Positions::kRotary) {
      const auto rope = std::make_shared<Rope>(c_.rope_theta, c_.rope_scaling, c_.rotary_width);
      const int positions = b.data("positions", DType::kI32);
      q = b.apply(rope, {q, positions}, "q_rope");
      k = b.apply(rope, {k, positions}, "k_rope");
    }
    const int o = core(b, q, k, v);
    const Dims w{{'D', c_.width}, {'H', c_.heads}, {'K', c_.head_width}};
    return b.apply(std::make_shared<Linear>(c_.product_type), {o, matrix(b, "out", "out.w", w, branch_deviation_)},
                   "out");
  }

  // DeepSeek-V2, section 2.1: keys and values come from a common latent, and queries from one where it is given.
  int latent_attention(LayerBuilder& b, int x) const {
    const LatentConfig& l = c_.latent;
    const auto product = [&](const std::string& what, int in, Dims w, std::size_t out_dims) {
      return b.apply(std::make_shared<Linear>(c_.product_type),
                     {in, matrix(b, what, what + ".w", std::move(w), c_.initial_deviation, out_dims)}, what);
    };
    const auto positions = [&] { return b.data("positions", DType::kI32); };
    int source = x;
    Extent from{'D', c_.width};
    if (l.q_rank > 0) {
      source = norm(b, "q_latent_norm", product("q_down", x, {{'Q', l.q_rank}, from}, 1), {{'Q', l.q_rank}});
      from = {'Q', l.q_rank};
    }
    const int q = product("q", source, {{'H', c_.heads}, {'K', c_.head_width}, from}, 2);
    const int latent =
        norm(b, "kv_latent_norm", product("kv_down", x, {{'L', l.kv_rank}, {'D', c_.width}}, 1), {{'L', l.kv_rank}});
    const int key = product("k", latent, {{'H', c_.heads}, {'N', l.key_width}, {'L', l.kv_rank}}, 2);
    const int value = product("v", latent, {{'H', c_.heads}, {'U', l.value_width}, {'L', l.kv_rank}}, 2);
    const int shared = product("k_shared", x, {{'R', l.rope_width}, {'D', c_.width}}, 1);
    const auto turns = std::make_shared<Rope>(c_.rope_theta, c_.rope_scaling, l.rope_width);
    const int q_rope = b.apply(turns, {q, positions()}, "q_rope"),
              k_rope = b.apply(turns, {shared, positions()}, "k_rope");
    const int o =
        b.apply(std::make_shared<LatentAttention>(),
                {q_rope, key, k_rope, value, b.data("first", DType::kI32), b.data("last", DType::kI32)}, "attention");
    const Dims w{{'D', c_.width}, {'H', c_.heads}, {'U', l.value_width}};
    return b.apply(std::make_shared<Linear>(c_.product_type), {o, matrix(b, "out", "out.w", w, branch_deviation_)},
                   "out");
  }

  // Without the bias of its last product, which the residual carries.
  int ffn(LayerBuilder& b, int x) const { return gated(b, x, "", c_.ffn_width, c_.ffn_bias); }

  int gated(LayerBuilder& b, int x, const std::string& prefix, std::int64_t width, bool bias) const {
    return gated_down(b, gated_act(b, x, prefix, width, bias), prefix, width);
  }
  int gated_act(LayerBuilder& b, int x, const std::string& prefix, std::int64_t width, bool bias) const {
    const int up = linear(b, prefix + "up", x, width, bias);
    if (c_.ffn == Ffn::kGelu) return b.apply(std::make_shared<Gelu>(c_.gelu), {up}, prefix + "act");
    return b.apply(gate(), {linear(b, prefix + "gate", x, width, bias), up}, prefix + "act");
  }
  int gated_down(LayerBuilder& b, int act, const std::string& prefix, std::int64_t width) const {
    const int w = matrix(b, prefix + "down", prefix + "down.w", {{'D', c_.width}, {'F', width}}, branch_deviation_);
    return b.apply(std::make_shared<Linear>(c_.product_type), {act, w}, prefix + "down");
  }

  OpPtr gate(RowWeights weights = RowWeights::kNone) const {
    constexpr double kClampedLimit = 7;
    if (c_.ffn == Ffn::kGeglu) return std::make_shared<Geglu>(weights);
    if (c_.ffn == Ffn::kClampedSwiglu) return std::make_shared<ClampedSwiglu>(kClampedLimit, weights);
    return std::make_shared<Swiglu>(weights);
  }

  int mixture(LayerBuilder& b, int x) const {
    const MixtureConfig& m = c_.mixture;
    const Extent experts{'E', m.experts}, width{'D', c_.width}, inner{'F', m.expert_width};
    const auto bias = [&](const std::string& what, Dims dims) {
      return vector(b, what, "bias", what + ".b", std::move(dims), Initial::Kind::kZeros);
    };
    std::vector<int> in{x, matrix(b, "router", "router.w", {experts, width}, c_.initial_deviation)};
    if (m.biases) in.push_back(bias("router", {experts}));
    const int weights = b.apply(std::make_shared<Router>(m.router, m.biases), in, "router"), chosen = weights + 1;
    const auto dispatch = std::make_shared<Dispatch>(m.experts, m.room());
    const int rows = b.apply(dispatch, {x, chosen}, "dispatch");
    const int row_weights = b.apply(dispatch, {weights, chosen}, "dispatch_weights");
    // The shared experts compute while rows travel, there and back.
    const int shared = m.shared_width > 0 ? gated_act(b, x, "shared_", m.shared_width, false) : -1;
    const auto product = [&](const std::string& what, int from, Dims w, bool with_bias, double deviation) {
      std::vector<int> parts{from, matrix(b, what, what + ".w", w, deviation, 2)};
      if (with_bias) parts.push_back(bias(what, {w[0], w[1]}));
      return b.apply(std::make_shared<GroupedLinear>(c_.product_type), parts, what);
    };
    const int up = product("expert_up", rows, {experts, inner, width}, m.biases, c_.initial_deviation);
    const int gated_rows = product("expert_gate", rows, {experts, inner, width}, m.biases, c_.initial_deviation);
    const int act = b.apply(gate(RowWeights::kGiven), {gated_rows, up, row_weights}, "expert_act");
    int down = product("expert_down", act, {experts, width, inner}, false, branch_deviation_);
    if (m.biases)
      down = b.apply(std::make_shared<ExpertBias>(), {down, bias("expert_down", {experts, width}), row_weights},
                     "expert_bias");
    const int beside = shared >= 0 ? gated_down(b, shared, "shared_", m.shared_width) : -1;
    const int routed = b.apply(std::make_shared<Combine>(), {down, chosen}, "combine");
    return beside >= 0 ? b.apply(std::make_shared<Add>(), {routed, beside}, "experts") : routed;
  }

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
    if (what.rfind("expert_", 0) == 0) p.spec.grid = Grid::kExpert;
    if (family_.tensor) p.file.name = family_.tensor(what, part, layer);
    return p;
  }

  // Stored shapes are [out, in] with named dims folded; a product's output dims come first.
  void fold(Parameter& p, std::size_t num_out_dims, bool is_product) const {
    std::int64_t out = 1, in = 1;
    for (std::size_t i = 0; i < p.spec.dims.size(); ++i) (i < num_out_dims ? out : in) *= p.spec.dims[i].size;
    p.file.transposed = is_product && family_.transposed;
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
    join(p, what, num_out_dims);
    return b.parameter(std::move(p));
  }

  int vector(LayerBuilder& b, const std::string& what, const std::string& part, const std::string& name, Dims dims,
             Initial::Kind initial) const {
    Parameter p = make(what, part, name, std::move(dims), b.index());
    p.initial = {initial, 0};
    fold(p, p.spec.dims.size(), false);
    join(p, what, p.spec.dims.size());
    return b.parameter(std::move(p));
  }

  // q, k and v as parts of one stored tensor.
  void join(Parameter& p, const std::string& what, std::size_t num_out_dims) const {
    const std::int64_t part = what == "q" ? 0 : what == "k" ? 1 : what == "v" ? 2 : -1;
    if (family_.qkv == QkvLayout::kApart || part < 0) return;
    check(c_.heads == c_.kv_heads, "a joined tensor has as many kv heads as heads");
    std::int64_t rows = 1;
    for (std::size_t i = 0; i < num_out_dims; ++i) rows *= p.spec.dims[i].size;
    p.file.block = family_.qkv == QkvLayout::kByHead ? c_.head_width : rows;
    p.file.offset = part * p.file.block;
    p.file.stride = 3 * p.file.block;
    p.file.shape[p.file.transposed ? 1 : 0] *= 3;
  }

  int norm(LayerBuilder& b, const std::string& what, int x, const Dims& dims) const {
    const auto start = c_.norm_one_more ? Initial::Kind::kZeros : Initial::Kind::kOnes;
    std::vector<int> in{x, vector(b, what, "weight", what + ".w", dims, start)};
    if (c_.norm == NormKind::kLayer && c_.norm_bias)
      in.push_back(vector(b, what, "bias", what + ".b", dims, Initial::Kind::kZeros));
    return b.apply(std::make_shared<Norm>(c_.norm, c_.norm_epsilon, c_.norm_one_more, c_.norm_kernel), in, what);
  }

  int projection(LayerBuilder& b, const std::string& what, int x, Dim heads, std::int64_t num_heads) const {
    const Dims out = {{heads, num_heads}, {'K', c_.head_width}};
    std::vector<int> in{x, matrix(b, what, what + ".w", {out[0], out[1], {'D', c_.width}}, c_.initial_deviation, 2)};
    if (c_.qkv_bias) in.push_back(vector(b, what, "bias", what + ".b", out, Initial::Kind::kZeros));
    return b.apply(std::make_shared<Linear>(c_.product_type), in, what);
  }

  int linear(LayerBuilder& b, const std::string& what, int x, std::int64_t width, bool bias) const {
    std::vector<int> in{x, matrix(b, what, what + ".w", {{'F', width}, {'D', c_.width}}, c_.initial_deviation)};
    if (bias) in.push_back(vector(b, what, "bias", what + ".b", {{'F', width}}, Initial::Kind::kZeros));
    return b.apply(std::make_shared<Linear>(c_.product_type), in, what);
  }

  // `biases`: whose the biases are that it carries; an empty name is none.
  int residual(LayerBuilder& b, const std::string& name, int y, int r, const std::vector<std::string>& biases) const {
    std::vector<int> in{y, r};
    for (const std::string& what : biases)
      if (!what.empty()) in.push_back(vector(b, what, "bias", what + ".b", {{'D', c_.width}}, Initial::Kind::kZeros));
    const int count = static_cast<int>(in.size()) - 2;
    const DropoutRule rule{c_.dropout, b.name() + "." + name, c_.stored_masks};
    if (c_.dropout > 0) in.push_back(b.data("tokens", DType::kI64));
    return b.apply(std::make_shared<Residual>(count, rule), in, name);
  }

  const ModelConfig& c_;
  Sizes sizes_;
  ModelPurpose purpose_;
  const Family& family_;
  double branch_deviation_;
};

}  // namespace

namespace {

// Sizes beyond any machine end here, before a product or a sum of them can overflow.
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
  Model model{config, {}, {}};
  const Family& family = family_of(config);
  if (config.tied_head && family.tensor) model.tied_head_name = family.tensor("head", "weight", -1);
  if (purpose == ModelPurpose::kGenerate) model.config.dropout = 0;
  const ModelBuilder builder(model.config, sizes, purpose);
  model.layers.push_back(builder.embedding());
  for (int i = 0; i < config.layers; ++i) model.layers.push_back(builder.layer(i));
  model.layers.push_back(builder.head());
  for (std::size_t i : {std::size_t{0}, std::size_t{1}, model.layers.size() - 1}) check_sizes(model.layers[i]);
  double parameters = 0;
  for (const Layer& layer : model.layers)
    for (const Parameter& p : layer.parameters) parameters += static_cast<double>(p.spec.elements());
  if (parameters > kMostElements)
    throw InvalidInput(
        str("the model would have ", parameters, " parameters; at most ", kMostElements, " are planned with"),
        ExitCode::kDoesNotFit);
  return model;
}

std::vector<FileTensor> file_tensors(const Model& model) {
  std::vector<FileTensor> out;
  for (const Parameter* p : model.parameters())
    if (p->file.offset == 0) out.push_back(p->file);
  return out;
}

ModelConfig find_model(const std::string& name_or_path) {
  for (const Preset& preset : model_presets())
    if (preset.name == name_or_path)
      return read_config(parse_json(preset.text, "preset " + preset.name), "preset " + preset.name);
  struct stat info {};
  if (::stat(name_or_path.c_str(), &info) != 0 && errno != ENOENT && errno != ENOTDIR)
    throw InvalidInput(str("model ", printable_path(name_or_path), ": cannot be read: ", std::strerror(errno)),
                       ExitCode::kStorage);
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
