// Every op's backward pass against central differences, in float64; fused against split; both sides of every flag.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sextant/base/random.h"
#include "sextant/ops/add.h"
#include "sextant/ops/attention.h"
#include "sextant/ops/combine.h"
#include "sextant/ops/dispatch.h"
#include "sextant/ops/dropout.h"
#include "sextant/ops/embedding.h"
#include "sextant/ops/geglu.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/grouped_linear.h"
#include "sextant/ops/head.h"
#include "sextant/ops/linear.h"
#include "sextant/ops/norm.h"
#include "sextant/ops/residual.h"
#include "sextant/ops/rope.h"
#include "sextant/ops/router.h"
#include "sextant/ops/softcap.h"
#include "sextant/ops/swiglu.h"
#include "tests/support/unit_runner.h"

namespace sextant {
namespace {

Sizes kSizes{2, 5, DType::kF64};  // the float32 test sets another dtype while it builds
const KernelTable kKernels = builtin_kernels();

double noise(std::uint64_t stream, std::uint64_t i) {
  return RandomStream(11, Purpose::kTest, stream).uniform(i) * 2 - 1;
}

int tensor(LayerBuilder& b, const std::string& name, std::vector<Extent> dims) {
  Parameter p;
  p.spec = {.name = name, .dims = std::move(dims)};
  return b.parameter(std::move(p));
}

struct Case {
  std::string name;
  std::function<Layer()> build;
  std::function<void(UnitRunner&)> data;  // fills the loader's tensors
};

void causal(UnitRunner& r) {
  // The second sequence holds two documents.
  for (int i = 0; i < 10; ++i) {
    r.integers<std::int32_t>("last")[static_cast<std::size_t>(i)] = i % 5;
    r.integers<std::int32_t>("first")[static_cast<std::size_t>(i)] = i >= 5 && i % 5 >= 2 ? 2 : 0;
  }
}
void positions(UnitRunner& r) {
  for (int i = 0; i < 10; ++i) r.integers<std::int32_t>("positions")[static_cast<std::size_t>(i)] = (i * 3) % 7;
}
void tokens(UnitRunner& r) {
  for (int i = 0; i < 10; ++i) r.integers<std::int64_t>("tokens")[static_cast<std::size_t>(i)] = 1000 + 17 * i;
}

Layer attention_layer(std::int64_t heads, std::int64_t groups, AttentionRule rule = {}) {
  LayerBuilder b("u", 0, kSizes);
  const int q = tensor(b, "q", {{'B', 2}, {'S', 5}, {'H', heads}, {'K', 3}}),
            k = tensor(b, "k", {{'B', 2}, {'S', 5}, {'G', groups}, {'K', 3}}),
            v = tensor(b, "v", {{'B', 2}, {'S', 5}, {'G', groups}, {'K', 3}});
  const int a = b.apply(std::make_shared<Attention>(rule),
                        {q, k, v, b.data("first", DType::kI32), b.data("last", DType::kI32)}, "attention");
  // A unit's output is not read by its own backward pass, so something stands behind attention, as in a model.
  return b.finish(
      b.apply(std::make_shared<Add>(), {a, tensor(b, "r", {{'B', 2}, {'S', 5}, {'H', heads}, {'K', 3}})}, "y"));
}

Layer norm_layer(NormKind kind, const std::vector<Extent>& free, const std::vector<Extent>& normalised,
                 bool bias = true, bool one_more = false) {
  LayerBuilder b("u", 0, kSizes);
  std::vector<Extent> all = free;
  all.insert(all.end(), normalised.begin(), normalised.end());
  std::vector<int> in{tensor(b, "x", all), tensor(b, "w", normalised)};
  if (kind == NormKind::kLayer && bias) in.push_back(tensor(b, "b", normalised));
  return b.finish(b.apply(std::make_shared<Norm>(kind, 1e-3, one_more), in, "y"));
}

Layer element_wise(const OpPtr& op, int inputs) {
  LayerBuilder b("u", 0, kSizes);
  std::vector<int> in;
  for (int i = 0; i < inputs; ++i)
    in.push_back(tensor(b, std::string(1, static_cast<char>('a' + i)), {{'B', 2}, {'S', 5}, {'F', 6}}));
  return b.finish(b.apply(op, in, "y"));
}

Layer residual_layer(int biases, double dropout) {
  LayerBuilder b("u", 0, kSizes);
  std::vector<int> in{tensor(b, "x", {{'B', 2}, {'S', 5}, {'D', 7}}), tensor(b, "r", {{'B', 2}, {'S', 5}, {'D', 7}})};
  for (int i = 0; i < biases; ++i) in.push_back(tensor(b, str("bias", i), {{'D', 7}}));
  if (dropout > 0) in.push_back(b.data("tokens", DType::kI64));
  return b.finish(b.apply(std::make_shared<Residual>(biases, DropoutRule{dropout, "test"}), in, "y"));
}

Layer head_layer(HeadRule rule = {}) {
  LayerBuilder b("u", 0, kSizes);
  b.apply(std::make_shared<Head>(rule),
          {tensor(b, "x", {{'B', 2}, {'S', 5}, {'D', 4}}), tensor(b, "w", {{'V', 9}, {'D', 4}}),
           b.data("labels", DType::kI32)},
          "loss");
  return b.finish(-1);
}

void labels(UnitRunner& r) {
  for (int i = 0; i < 10; ++i)
    r.integers<std::int32_t>("labels")[static_cast<std::size_t>(i)] = i % 4 == 3 ? -100 : (i * 5) % 9;
}

// Router to combine, as in a model: every op of a mixture of experts. Room for whatever the router decides.
Layer mixture_layer(RouterRule rule) {
  LayerBuilder b("u", 0, kSizes);
  constexpr std::int64_t kExperts = 5, kInner = 3, kWidth = 4;
  const Extent experts{'E', kExperts}, inner{'F', kInner}, width{'D', kWidth};
  const int x = tensor(b, "x", {{'B', 2}, {'S', 5}, width});
  const int weights =
      b.apply(std::make_shared<Router>(rule, false), {x, tensor(b, "router", {experts, width})}, "routing");
  const int chosen = weights + 1;
  const auto dispatch =
      std::make_shared<Dispatch>(kExperts, static_cast<double>(kExperts) / static_cast<double>(rule.top_k));
  const auto product = [&](const char* name, int rows, Extent out, Extent in) {
    Parameter p;
    p.spec = {.name = std::string(name) + ".w", .dims = {experts, out, in}, .grid = Grid::kExpert};
    return b.apply(std::make_shared<GroupedLinear>(), {rows, b.parameter(std::move(p))}, name);
  };
  const int rows = b.apply(dispatch, {x, chosen}, "rows"),
            of_rows = b.apply(dispatch, {weights, chosen}, "row_weights");
  const int act = b.apply(std::make_shared<Swiglu>(RowWeights::kGiven),
                          {product("gate", rows, inner, width), product("up", rows, inner, width), of_rows}, "act");
  return b.finish(b.apply(std::make_shared<Combine>(), {product("down", act, width, inner), chosen}, "y"));
}

// Something stands behind the cap, whose result its backward pass reads.
Layer capped_layer() {
  LayerBuilder b("u", 0, kSizes);
  const std::vector<Extent> dims{{'B', 2}, {'S', 5}, {'F', 6}};
  const int capped = b.apply(std::make_shared<Softcap>(0.6), {tensor(b, "x", dims)}, "capped");
  return b.finish(b.apply(std::make_shared<Add>(), {capped, tensor(b, "r", dims)}, "y"));
}

std::vector<Case> cases() {
  const auto none = [](UnitRunner&) {};
  return {
      {"linear",
       [] {
         LayerBuilder b("u", 0, kSizes);
         const int x = tensor(b, "x", {{'B', 2}, {'S', 5}, {'D', 4}}),
                   w = tensor(b, "w", {{'H', 2}, {'K', 3}, {'D', 4}}), c = tensor(b, "b", {{'H', 2}, {'K', 3}});
         return b.finish(b.apply(std::make_shared<Linear>(), {x, w, c}, "y"));
       },
       none},
      {"linear over two dims",
       [] {
         LayerBuilder b("u", 0, kSizes);
         const int x = tensor(b, "x", {{'B', 2}, {'S', 5}, {'H', 2}, {'K', 3}}),
                   w = tensor(b, "w", {{'D', 4}, {'H', 2}, {'K', 3}});
         return b.finish(b.apply(std::make_shared<Linear>(), {x, w}, "y"));
       },
       none},
      {"embedding",
       [] {
         LayerBuilder b("u", 0, kSizes);
         return b.finish(b.apply(std::make_shared<Embedding>(),
                                 {b.data("ids", DType::kI32), tensor(b, "w", {{'V', 6}, {'D', 3}})}, "y"));
       },
       [](UnitRunner& r) {
         for (int i = 0; i < 10; ++i) r.integers<std::int32_t>("ids")[static_cast<std::size_t>(i)] = (i * i) % 5;
       }},
      {"layernorm",
       [] {
         return norm_layer(NormKind::kLayer, {{'B', 2}, {'S', 5}}, {{'D', 6}});
       },
       none},
      {"rmsnorm",
       [] {
         return norm_layer(NormKind::kRms, {{'B', 2}, {'S', 5}}, {{'D', 6}});
       },
       none},
      {"rmsnorm of heads",
       [] {
         return norm_layer(NormKind::kRms, {{'B', 2}, {'S', 5}, {'H', 2}}, {{'K', 4}});
       },
       none},
      {"rmsnorm of the projection",
       [] {
         return norm_layer(NormKind::kRms, {{'B', 2}, {'S', 5}}, {{'H', 2}, {'K', 4}});
       },
       none},
      {"rope",
       [] {
         LayerBuilder b("u", 0, kSizes);
         return b.finish(b.apply(
             std::make_shared<Rope>(100.0, RopeScaling{4, 1, 4, 64}),
             {tensor(b, "x", {{'B', 2}, {'S', 5}, {'H', 2}, {'K', 6}}), b.data("positions", DType::kI32)}, "y"));
       },
       positions},
      {"attention MHA", [] { return attention_layer(3, 3); }, causal},
      {"attention GQA", [] { return attention_layer(4, 2); }, causal},
      {"attention MQA", [] { return attention_layer(3, 1); }, causal},
      {"attention softcap", [] { return attention_layer(4, 2, {.softcap = 0.7}); }, causal},
      {"attention scale window", [] { return attention_layer(3, 3, {.scale = 0.9, .window = 2}); }, causal},
      {"attention alibi", [] { return attention_layer(3, 3, {.alibi = true}); }, causal},
      {"attention everything",
       [] { return attention_layer(4, 2, {.scale = 0.9, .softcap = 0.7, .window = 3, .alibi = true}); }, causal},
      {"layernorm without bias",
       [] {
         return norm_layer(NormKind::kLayer, {{'B', 2}, {'S', 5}}, {{'D', 6}}, false);
       },
       none},
      {"rmsnorm one more",
       [] {
         return norm_layer(NormKind::kRms, {{'B', 2}, {'S', 5}}, {{'D', 6}}, true, true);
       },
       none},
      {"rope of a part",
       [] {
         LayerBuilder b("u", 0, kSizes);
         return b.finish(b.apply(
             std::make_shared<Rope>(100.0, RopeScaling{}, 4),
             {tensor(b, "x", {{'B', 2}, {'S', 5}, {'H', 2}, {'K', 7}}), b.data("positions", DType::kI32)}, "y"));
       },
       positions},
      {"embedding scaled",
       [] {
         LayerBuilder b("u", 0, kSizes);
         return b.finish(b.apply(std::make_shared<Embedding>(1.7),
                                 {b.data("ids", DType::kI32), tensor(b, "w", {{'V', 6}, {'D', 3}})}, "y"));
       },
       [](UnitRunner& r) {
         for (int i = 0; i < 10; ++i) r.integers<std::int32_t>("ids")[static_cast<std::size_t>(i)] = (i * i) % 5;
       }},
      {"geglu", [] { return element_wise(std::make_shared<Geglu>(), 2); }, none},
      {"softcap", [] { return capped_layer(); }, none},
      {"residual two biases", [] { return residual_layer(2, 0); }, none},
      {"residual two biases dropout", [] { return residual_layer(2, 0.3); }, tokens},
      {"gelu tanh", [] { return element_wise(std::make_shared<Gelu>(GeluKind::kTanh), 1); }, none},
      {"gelu erf", [] { return element_wise(std::make_shared<Gelu>(GeluKind::kErf), 1); }, none},
      {"swiglu", [] { return element_wise(std::make_shared<Swiglu>(), 2); }, none},
      {"mixture softmax", [] { return mixture_layer({.top_k = 2}); }, none},
      {"mixture softmax normalised", [] { return mixture_layer({.top_k = 2, .normalises = true, .scale = 1.5}); },
       none},
      {"mixture sigmoid", [] { return mixture_layer({.top_k = 3, .sigmoid = true}); }, none},
      {"mixture sigmoid normalised", [] { return mixture_layer({.top_k = 3, .sigmoid = true, .normalises = true}); },
       none},
      {"add", [] { return element_wise(std::make_shared<Add>(), 2); }, none},
      {"dropout",
       [] {
         LayerBuilder b("u", 0, kSizes);
         return b.finish(b.apply(std::make_shared<Dropout>(DropoutRule{0.3, "test"}),
                                 {tensor(b, "x", {{'B', 2}, {'S', 5}, {'D', 7}}), b.data("tokens", DType::kI64)}, "y"));
       },
       tokens},
      {"residual", [] { return residual_layer(0, 0); }, none},
      {"residual bias", [] { return residual_layer(1, 0); }, none},
      {"residual bias dropout", [] { return residual_layer(1, 0.3); }, tokens},
      {"head", [] { return head_layer(); }, labels},
      {"head softcap", [] { return head_layer({.softcap = 0.8}); }, labels},
      {"head smoothing", [] { return head_layer({.label_smoothing = 0.2}); }, labels},
      {"head z loss", [] { return head_layer({.z_loss = 0.3}); }, labels},
      {"head with all", [] { return head_layer({.softcap = 0.8, .label_smoothing = 0.2, .z_loss = 0.3}); }, labels},
  };
}

class Backward : public testing::TestWithParam<int> {};
std::string case_name(const testing::TestParamInfo<int>& which) {
  std::string name = cases()[static_cast<std::size_t>(which.param)].name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Ops, Backward, testing::Range(0, static_cast<int>(cases().size())), case_name);

std::vector<std::string> parameters(const UnitRunner& r) {
  std::vector<std::string> out;
  for (const Parameter& p : r.unit().parameters) out.push_back(p.spec.name);
  return out;
}

void prepare(UnitRunner& r, const Case& c) {
  c.data(r);
  std::uint64_t stream = 0;
  for (const std::string& name : parameters(r)) {
    ++stream;
    auto& x = r.values(name);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = noise(stream, i);
  }
  if (r.unit().output_gradient >= 0) {
    auto& dy = r.values("d.u.y");
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = noise(99, i);
  }
}

// Sum of the output times fixed weights, or the head's loss times its scale: what the gradients are of.
double objective(UnitRunner& r) {
  r.fresh();
  r.forward();
  if (r.unit().output < 0) {
    r.backward_fused();
    return r.values("u.loss")[0] * 0.25;
  }
  const auto &y = r.values("u.y"), &dy = r.values("d.u.y");
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
  return sum;
}

TEST_P(Backward, EqualsCentralDifferences) {
  const Case c = cases()[static_cast<std::size_t>(GetParam())];
  UnitRunner r(c.build(), kKernels);
  prepare(r, c);
  r.forward();
  r.backward_fused();
  std::map<std::string, std::vector<double>> gradients;  // taken now: the differences below run the backward pass again
  for (const std::string& name : parameters(r)) gradients[name] = r.values("d." + name);
  for (const auto& [name, gradient] : gradients) {
    double greatest = 0;
    for (const double g : gradient) greatest = std::max(greatest, std::abs(g));
    EXPECT_GT(greatest, 0) << name;
    auto& x = r.values(name);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double at = x[i], h = 1e-5;
      x[i] = at + h;
      const double above = objective(r);
      x[i] = at - h;
      const double below = objective(r);
      x[i] = at;
      // The error of a central difference: h^2 times the third derivative, plus rounding over h.
      ASSERT_NEAR((above - below) / (2 * h), gradient[i], 2e-8 * std::max(1.0, greatest)) << name << "[" << i << "]";
    }
  }
}

TEST_P(Backward, FusedEqualsSplitBitwiseAndASecondContributionAdds) {
  const Case c = cases()[static_cast<std::size_t>(GetParam())];
  UnitRunner fused(c.build(), kKernels), split(c.build(), kKernels), threads(c.build(), kKernels, 3);
  for (UnitRunner* r : {&fused, &split, &threads}) {
    prepare(*r, c);
    r->forward();
  }
  fused.backward_fused();
  split.backward_split();
  threads.backward_split();
  for (const std::string& name : parameters(fused)) {
    EXPECT_EQ(fused.values("d." + name), split.values("d." + name)) << name;
    EXPECT_EQ(fused.values("d." + name), threads.values("d." + name)) << name << " on three threads";
    const std::vector<double> once = fused.values("d." + name);
    ASSERT_FALSE(once.empty());
  }
  std::map<std::string, std::vector<double>> once;
  for (const std::string& name : parameters(fused)) once[name] = fused.values("d." + name);
  fused.backward_fused();  // not fresh: everything counts twice
  for (const std::string& name : parameters(fused)) {
    const auto& twice = fused.values("d." + name);
    for (std::size_t i = 0; i < twice.size(); ++i)
      ASSERT_NEAR(twice[i], 2 * once[name][i], 1e-13 * std::max(1.0, std::abs(twice[i]))) << name;
  }
}

// Every float32 kernel against its float64 twin: the same values, within float rounding of a few thousand terms.
TEST_P(Backward, FloatEqualsDouble) {
  const Case c = cases()[static_cast<std::size_t>(GetParam())];
  UnitRunner wide(c.build(), kKernels);
  kSizes.dtype = DType::kF32;
  UnitRunner narrow(c.build(), kKernels, 2);
  kSizes.dtype = DType::kF64;
  prepare(wide, c);
  c.data(narrow);
  for (const std::string& name : parameters(wide))
    narrow.floats(name).assign(wide.values(name).begin(), wide.values(name).end());
  if (wide.unit().output_gradient >= 0)
    narrow.floats("d.u.y").assign(wide.values("d.u.y").begin(), wide.values("d.u.y").end());
  for (UnitRunner* r : {&wide, &narrow}) r->forward(), r->backward_fused();
  const auto compare = [&](const std::string& name) {
    const auto& a = narrow.floats(name);
    const auto& b = wide.values(name);
    double greatest = 0;
    for (const double x : b) greatest = std::max(greatest, std::abs(x));
    for (std::size_t i = 0; i < b.size(); ++i)
      ASSERT_NEAR(a[i], b[i], 3e-6 * std::max(greatest, 0.1)) << name << "[" << i << "]";
  };
  if (wide.unit().output >= 0) compare("u.y");
  for (const std::string& name : parameters(wide)) compare("d." + name);
}

// Attention over several stripes of queries, and rows that see nothing, against the plain formula.
TEST(Attention, ManyStripesEqualTheFormula) {
  constexpr std::int64_t n = 150, width = 3;
  LayerBuilder b("u", 0, {1, n, DType::kF64});
  const int q = tensor(b, "q", {{'B', 1}, {'S', n}, {'H', 1}, {'K', width}}),
            k = tensor(b, "k", {{'B', 1}, {'S', n}, {'G', 1}, {'K', width}}),
            v = tensor(b, "v", {{'B', 1}, {'S', n}, {'G', 1}, {'K', width}});
  const int a = b.apply(std::make_shared<Attention>(),
                        {q, k, v, b.data("first", DType::kI32), b.data("last", DType::kI32)}, "attention");
  UnitRunner r(b.finish(b.apply(std::make_shared<Gelu>(GeluKind::kErf), {a}, "y")), kKernels, 2);
  for (std::uint64_t stream = 0; const char* name : {"u.q", "u.k", "u.v"}) {
    ++stream;
    for (std::size_t i = 0; double& x : r.values(name)) x = 3 * noise(stream, i++);
  }
  auto &first = r.integers<std::int32_t>("first"), &last = r.integers<std::int32_t>("last");
  for (std::int32_t s = 0; s < n; ++s) {
    last[static_cast<std::size_t>(s)] = s == 70 ? -1 : s;  // a row that sees no key yields zeros
    first[static_cast<std::size_t>(s)] = s > 100 ? 90 : 0;
  }
  r.forward();
  const auto &qs = r.values("u.q"), &ks = r.values("u.k"), &vs = r.values("u.v"), &got = r.values("u.attention");
  for (std::size_t s = 0; s < n; ++s) {
    double sum = 0, out[width] = {};
    for (std::int32_t t = first[s]; t <= last[s]; ++t) {
      double score = 0;
      for (std::size_t i = 0; i < width; ++i) score += qs[s * width + i] * ks[static_cast<std::size_t>(t) * width + i];
      const double p = std::exp(score / std::sqrt(3.0));
      sum += p;
      for (std::size_t i = 0; i < width; ++i) out[i] += p * vs[static_cast<std::size_t>(t) * width + i];
    }
    for (std::size_t i = 0; i < width; ++i) ASSERT_NEAR(got[s * width + i], sum > 0 ? out[i] / sum : 0, 1e-13) << s;
  }
}

// A head over a vocabulary so large that its tokens take several chunks: the sum of heads over single tokens.
TEST(Head, ChunksAddUp) {
  constexpr std::int64_t vocabulary = 3'000'000, tokens = 5;
  ASSERT_EQ(Head::chunk(tokens, vocabulary), 2);
  const auto build = [&](std::int64_t n) {
    LayerBuilder b("u", 0, {1, n, DType::kF64});
    b.apply(std::make_shared<Head>(),
            {tensor(b, "x", {{'B', 1}, {'S', n}, {'D', 2}}), tensor(b, "w", {{'V', vocabulary}, {'D', 2}}),
             b.data("labels", DType::kI32)},
            "loss");
    return b.finish(-1);
  };
  UnitRunner all(build(tokens), kKernels, 2), one(build(1), kKernels, 2);
  for (std::size_t i = 0; double& x : all.values("u.x")) x = noise(1, i++);
  for (std::size_t i = 0; double& x : all.values("u.w")) x = std::sin(static_cast<double>(i++));
  one.values("u.w") = all.values("u.w");
  for (std::size_t t = 0; t < tokens; ++t)
    all.integers<std::int32_t>("labels")[t] = t == 3 ? -100 : static_cast<std::int32_t>(t * 700'000);
  all.backward_fused();
  double loss = 0;
  std::vector<double> dw(all.values("u.w").size());
  for (std::size_t t = 0; t < tokens; ++t) {
    one.fresh();
    std::copy_n(all.values("u.x").begin() + static_cast<std::ptrdiff_t>(2 * t), 2, one.values("u.x").begin());
    one.integers<std::int32_t>("labels")[0] = all.integers<std::int32_t>("labels")[t];
    one.backward_fused();
    loss += one.values("u.loss")[0];
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] += one.values("d.u.w")[i];
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(all.values("d.u.x")[2 * t + i], one.values("d.u.x")[i], 1e-14);
  }
  EXPECT_NEAR(all.values("u.loss")[0], loss, 1e-11);
  for (std::size_t i = 0; i < dw.size(); ++i) ASSERT_NEAR(all.values("d.u.w")[i], dw[i], 1e-15);
}

// The fused kernel against its parts in units of their own.
TEST(Fused, ResidualAndNormEqualTheirParts) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms})
    for (const double dropout : {0.0, 0.3}) {
      const std::vector<Extent> x = {{'B', 2}, {'S', 5}, {'D', 7}};
      const auto norm_inputs = [&](LayerBuilder& b, int in) {
        std::vector<int> inputs{in, tensor(b, "w", {{'D', 7}})};
        if (kind == NormKind::kLayer) inputs.push_back(tensor(b, "b", {{'D', 7}}));
        return inputs;
      };
      const auto residual_inputs = [&](LayerBuilder& b) {
        std::vector<int> inputs{tensor(b, "x", x), tensor(b, "r", x), tensor(b, "bias", {{'D', 7}})};
        if (dropout > 0) inputs.push_back(b.data("tokens", DType::kI64));
        return inputs;
      };
      const auto residual = std::make_shared<Residual>(true, DropoutRule{dropout, "test"});
      const auto norm = std::make_shared<Norm>(kind, 1e-3);
      LayerBuilder both("u", 0, kSizes), first("u", 0, kSizes), second("u", 0, kSizes);
      const int sum = both.apply(residual, residual_inputs(both), "sum");
      UnitRunner fused(both.finish(both.apply(std::make_shared<Add>(),
                                              {both.apply(norm, norm_inputs(both, sum), "norm"), sum}, "y")),
                       kKernels);
      ASSERT_EQ(fused.unit().f.size(), 2U);  // residual+norm, add
      UnitRunner a(first.finish(first.apply(residual, residual_inputs(first), "y")), kKernels),
          b(second.finish(second.apply(norm, norm_inputs(second, tensor(second, "x", x)), "y")), kKernels);
      for (UnitRunner* r : {&fused, &a}) {
        if (dropout > 0) tokens(*r);
        for (std::uint64_t stream = 1; const char* name : {"u.x", "u.r", "u.bias"}) {
          for (std::size_t i = 0; double& v : r->values(name)) v = noise(stream, i++);
          ++stream;
        }
      }
      a.forward();
      b.values("u.x") = a.values("u.y");
      for (UnitRunner* r : {&fused, &b})
        for (std::uint64_t stream = 7; const char* name : {"u.w", "u.b"}) {
          if (kind == NormKind::kRms && std::string(name) == "u.b") continue;
          for (std::size_t i = 0; double& v : r->values(name)) v = noise(stream, i++);
          ++stream;
        }
      b.forward();
      fused.forward();
      EXPECT_EQ(fused.values("u.sum"), a.values("u.y"));
      EXPECT_EQ(fused.values("u.norm"), b.values("u.y"));
      EXPECT_EQ(fused.values("u.norm.stat1"), b.values("u.y.stat1"));
    }
}

// T17 of docs/traps.md: a mask is a function of the token and the channel alone, so any slice of the tokens draws the
// same bits.
TEST(Dropout, MasksOfASliceAreTheSliceOfTheMasks) {
  const auto run = [](std::int64_t batch, std::int64_t sequence, const std::vector<std::int64_t>& tokens) {
    LayerBuilder b("u", 0, {batch, sequence, DType::kF64});
    UnitRunner r(b.finish(b.apply(
                     std::make_shared<Dropout>(DropoutRule{0.4, "test"}),
                     {tensor(b, "x", {{'B', batch}, {'S', sequence}, {'D', 7}}), b.data("tokens", DType::kI64)}, "y")),
                 kKernels);
    r.integers<std::int64_t>("tokens") = tokens;
    std::fill(r.values("u.x").begin(), r.values("u.x").end(), 1.0);
    r.forward();
    return r.values("u.y");
  };
  std::vector<std::int64_t> all(12);
  for (std::size_t i = 0; i < 12; ++i) all[i] = 7000 + static_cast<std::int64_t>(i);
  const auto whole = run(2, 6, all);
  // Tokens 9-11 and 0-2 of the twelve, as a zigzag slice would hold them.
  const auto slice = run(1, 6, {7009, 7010, 7011, 7000, 7001, 7002});
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t d = 0; d < 7; ++d) {
      EXPECT_EQ(slice[t * 7 + d], whole[(9 + t) * 7 + d]);
      EXPECT_EQ(slice[(3 + t) * 7 + d], whole[t * 7 + d]);
    }
  EXPECT_GT(std::count(whole.begin(), whole.end(), 0.0), 20);  // 84 elements at 0.4: about 34
  EXPECT_LT(std::count(whole.begin(), whole.end(), 0.0), 50);
}

// P8 of docs/traps.md: one weight used twice in a unit. x = [1.1, -0.7], w = [[.4, -.2], [.7, .3]], loss = sum(x w w).
TEST(TwiceUsedWeight, CountsOnceForEachUse) {
  // That example multiplies from the left, y = x w; here y = x w^T, so w is its transpose. Letters name dims: the
  // square weight is [F D], and the first product's F is read as D by the second.
  LayerBuilder b("u", 0, {1, 1, DType::kF64});
  const int in = tensor(b, "x", {{'B', 1}, {'S', 1}, {'D', 2}}), weight = tensor(b, "w", {{'F', 2}, {'D', 2}});
  const int once = b.apply(std::make_shared<Linear>(), {in, weight}, "once");
  b.spec(once).dims[2].dim = 'D';
  const int twice = b.apply(std::make_shared<Linear>(), {once, weight}, "y");
  UnitRunner r(b.finish(twice), kKernels);
  r.values("u.x") = {1.1, -0.7};
  r.values("u.w") = {0.4, 0.7, -0.2, 0.3};  // the transpose of the example's
  r.values("d.u.y") = {1, 1};
  for (const bool fused : {true, false}) {
    r.fresh();
    r.forward();
    if (fused)
      r.backward_fused();
    else
      r.backward_split();
    const std::vector<double> dw{0.17, -0.57, 1.05, -1.13}, dx{-0.12, 0.44};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(r.values("d.u.w")[i], dw[i], 1e-14);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(r.values("d.u.x")[i], dx[i], 1e-14);
  }
}

}  // namespace
}  // namespace sextant
