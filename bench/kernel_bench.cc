// How fast is each kernel of a layer, against what its FLOPs and bytes allow?
//   build/dev/bin/kernel_bench
#include <benchmark/benchmark.h>

#include "sextant/ops/attention.h"
#include "sextant/ops/dropout.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/head.h"
#include "sextant/ops/norm.h"
#include "sextant/ops/residual.h"
#include "sextant/ops/rope.h"
#include "sextant/ops/swiglu.h"
#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/optim/optimizer.h"

namespace sextant {
namespace {

// 256 tokens of GPT-2 124M.
constexpr std::int64_t kTokens = 256, kWidth = 768, kFfn = 3072;

// Runs one pass of an op on random memory of the given shapes; counts FLOP/s and bytes/s.
void run_kernel(benchmark::State& state, const OpPtr& op, Pass pass, const std::vector<TensorSpec>& inputs,
                const std::vector<TensorSpec>& reads, const std::vector<TensorSpec>& writes) {
  static const KernelTable table = builtin_kernels();
  Team team(static_cast<int>(state.range(0)));
  std::vector<std::vector<float>> memory;
  std::vector<View> r, w;
  const auto take = [&](const TensorSpec& spec) {
    const auto n = static_cast<std::size_t>(spec.elements()) * (size_of(spec.dtype) == 8 ? 2 : 1);
    memory.emplace_back(n);
    if (spec.is_float())
      for (std::size_t i = 0; i < n; ++i) memory.back()[i] = 0.01F * static_cast<float>(i % 97) - 0.5F;
    return View{memory.back().data(), &spec};
  };
  for (const TensorSpec& spec : reads) r.push_back(take(spec));
  for (const TensorSpec& spec : writes) w.push_back(take(spec));
  // Causal ranges for attention: last[s] = s.
  for (std::size_t i = 0; i < reads.size(); ++i)
    if (reads[i].name == "last")
      for (std::int64_t t = 0; t < reads[i].elements(); ++t)
        r[i].as<std::int32_t>()[t] = static_cast<std::int32_t>(t % reads[i].size_of_dim('S'));
  std::vector<char> scratch(static_cast<std::size_t>(op->scratch(pass, inputs, team.threads()).value + 64));
  const bool add[8] = {};
  const Kernel kernel = table.find(op->kind(), pass, DType::kF32);
  for (auto _ : state) kernel({*op, pass, r, w, std::span<const bool>(add, w.size()), scratch.data(), team, 1, 1e-3});
  const Work work = op->work(pass, inputs);
  state.counters["FLOP/s"] = benchmark::Counter(work.flops_causal * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
  state.counters["B/s"] = benchmark::Counter(static_cast<double>((work.read + work.written).value * state.iterations()),
                                             benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

TensorSpec tensor(std::vector<Extent> dims, DType dtype = DType::kF32, const std::string& name = "") {
  return {.name = name, .dims = std::move(dims), .dtype = dtype};
}
const TensorSpec x = tensor({{'B', 4}, {'S', 64}, {'D', kWidth}}), f = tensor({{'B', 4}, {'S', 64}, {'F', kFfn}}),
                 w = tensor({{'D', kWidth}}), stat = tensor({{'B', 4}, {'S', 64}});
const TensorSpec ids = tensor({{'B', 4}, {'S', 64}}, DType::kI32),
                 last = tensor({{'B', 4}, {'S', 64}}, DType::kI32, "last"),
                 q = tensor({{'B', 4}, {'S', 64}, {'H', 12}, {'K', 64}}),
                 k = tensor({{'B', 4}, {'S', 64}, {'G', 12}, {'K', 64}}),
                 lse = tensor({{'B', 4}, {'S', 64}, {'H', 12}}), vocabulary = tensor({{'V', 50257}, {'D', kWidth}}),
                 loss = tensor({}, DType::kF64);

void gelu_forward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Gelu>(GeluKind::kTanh), Pass::kF, {f}, {f}, {f});
}
void gelu_backward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Gelu>(GeluKind::kTanh), Pass::kI, {f}, {f, f}, {f});
}
void swiglu_forward(benchmark::State& s) { run_kernel(s, std::make_shared<Swiglu>(), Pass::kF, {f, f}, {f, f}, {f}); }
void swiglu_backward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Swiglu>(), Pass::kI, {f, f}, {f, f, f}, {f, f});
}
void layernorm_forward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Norm>(NormKind::kLayer, 1e-5), Pass::kF, {x, w, w}, {x, w, w}, {x, stat, stat});
}
void layernorm_backward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Norm>(NormKind::kLayer, 1e-5), Pass::kI, {x, w, w}, {x, w, stat, stat, x}, {x, w, w});
}
void residual_forward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Residual>(true, DropoutRule{}), Pass::kF, {x, x, w}, {x, x, w}, {x});
}
void residual_backward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Residual>(true, DropoutRule{}), Pass::kI, {x, x, w}, {x}, {x, x, w});
}
void rope_forward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Rope>(1e4, RopeScaling{}), Pass::kF, {q, ids}, {q, ids}, {q});
}
void attention_forward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Attention>(), Pass::kF, {q, k, k, ids, last}, {q, k, k, ids, last}, {q, lse});
}
void attention_backward(benchmark::State& s) {
  run_kernel(s, std::make_shared<Attention>(), Pass::kI, {q, k, k, ids, last}, {q, k, k, ids, last, q, lse, q},
             {q, k, k});
}
void head(benchmark::State& s) {
  run_kernel(s, std::make_shared<Head>(), Pass::kI, {x, vocabulary, ids}, {x, vocabulary, ids}, {loss, x, vocabulary});
}

void adamw(benchmark::State& state) {
  Team team(static_cast<int>(state.range(0)));
  const std::int64_t n = 32'000'000;
  std::vector<float> p(static_cast<std::size_t>(n), 0.1F), g(p), m(p), v(p);
  const OptimizerConfig config;
  for (auto _ : state)
    optimizer_step<float>(team, config, 1e-4, 10, 1, {{0, n, true}}, p.data(), g.data(), m.data(), v.data());
  state.counters["B/s"] = benchmark::Counter(static_cast<double>(n * 28 * state.iterations()),
                                             benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

void products(benchmark::State& state) {
  Team team(static_cast<int>(state.range(0)));
  const std::int64_t n = state.range(1), depth = state.range(2), form = state.range(3);
  std::vector<float> a(static_cast<std::size_t>(kTokens * depth), 0.1F), b(static_cast<std::size_t>(n * depth), 0.1F),
      c(static_cast<std::size_t>(kTokens * n), 0.1F);
  for (auto _ : state) {
    if (form == 0) product_forward<float>(team, kTokens, n, depth, a.data(), b.data(), nullptr, c.data());
    if (form == 1) product_input<float>(team, kTokens, n, depth, c.data(), b.data(), false, a.data());
    if (form == 2) product_weight<float>(team, kTokens, n, depth, c.data(), a.data(), false, b.data());
  }
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(kTokens * n * depth * state.iterations()),
                                                benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

#define KERNEL(name) BENCHMARK(name)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond)->UseRealTime()
KERNEL(gelu_forward);
KERNEL(gelu_backward);
KERNEL(swiglu_forward);
KERNEL(swiglu_backward);
KERNEL(layernorm_forward);
KERNEL(layernorm_backward);
KERNEL(residual_forward);
KERNEL(residual_backward);
KERNEL(rope_forward);
KERNEL(attention_forward);
KERNEL(attention_backward);
KERNEL(head);
KERNEL(adamw);
BENCHMARK(products)
    ->ArgNames({"threads", "n", "k", "form"})
    ->ArgsProduct({{1, 2}, {kWidth}, {kWidth, kFfn}, {0, 1, 2}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
}  // namespace sextant

BENCHMARK_MAIN();
