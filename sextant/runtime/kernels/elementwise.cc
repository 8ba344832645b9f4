#include "sextant/ops/elementwise.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

constexpr double kRootTwoOverPi = 0.7978845608028654, kCubic = 0.044715;

template <class T>
T gelu_tanh(T x) {
  const T u = static_cast<T>(kRootTwoOverPi) * (x + static_cast<T>(kCubic) * x * x * x);
  return T{0.5} * x * (T{1} + fast_tanh(u));
}
template <class T>
T gelu_tanh_slope(T x) {
  const T u = static_cast<T>(kRootTwoOverPi) * (x + static_cast<T>(kCubic) * x * x * x), t = fast_tanh(u);
  return T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * static_cast<T>(kRootTwoOverPi) * (T{1} + static_cast<T>(3 * kCubic) * x * x);
}
template <class T>
T gelu_erf(T x) { return T{0.5} * x * (T{1} + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2))); }
template <class T>
T gelu_erf_slope(T x) {
  return T{0.5} * (T{1} + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2))) + x * static_cast<T>(kRootTwoOverPi / 2) * fast_exp(T{-0.5} * x * x);
}

// Runs f(i) over all elements; results are independent of the split.
template <class F>
void each(const KernelCall& c, std::int64_t count, const F& f) {
  c.team.split(count, 1024, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

// d[i] = f(i), or d[i] += f(i): two loops, since a choice inside one keeps it from being vectorised.
template <class T, class F>
void each_gradient(const KernelCall& c, std::size_t write, const F& f) {
  T* d = c.writes[write].as<T>();
  const std::int64_t count = c.writes[write].elements();
  if (c.add[write]) each(c, count, [=](std::int64_t i) { d[i] += f(i); });
  else each(c, count, [=](std::int64_t i) { d[i] = f(i); });
}

template <class T>
void gelu_forward(const KernelCall& c) {
  const T* x = c.reads[0].as<T>();
  T* y = c.writes[0].as<T>();
  if (static_cast<const Gelu&>(c.op).gelu == GeluKind::kTanh) each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = gelu_tanh(x[i]); });
  else each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = gelu_erf(x[i]); });
}

// Reads: x, dy. Writes: dx.
template <class T>
void gelu_backward(const KernelCall& c) {
  const T *x = c.reads[0].as<T>(), *dy = c.reads[1].as<T>();
  if (static_cast<const Gelu&>(c.op).gelu == GeluKind::kTanh) each_gradient<T>(c, 0, [=](std::int64_t i) { return dy[i] * gelu_tanh_slope(x[i]); });
  else each_gradient<T>(c, 0, [=](std::int64_t i) { return dy[i] * gelu_erf_slope(x[i]); });
}

// Reads: gate, up. Writes: y.
template <class T>
void swiglu_forward(const KernelCall& c) {
  const T *gate = c.reads[0].as<T>(), *up = c.reads[1].as<T>();
  T* y = c.writes[0].as<T>();
  each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = gate[i] * logistic(gate[i]) * up[i]; });
}

// Reads: gate, up, dy. Writes: dgate, dup.
template <class T>
void swiglu_backward(const KernelCall& c) {
  const T *gate = c.reads[0].as<T>(), *up = c.reads[1].as<T>(), *dy = c.reads[2].as<T>();
  each_gradient<T>(c, 0, [=](std::int64_t i) {
    const T s = logistic(gate[i]);
    return dy[i] * up[i] * s * (T{1} + gate[i] * (T{1} - s));
  });
  each_gradient<T>(c, 1, [=](std::int64_t i) { return dy[i] * gate[i] * logistic(gate[i]); });
}

template <class T>
void add_forward(const KernelCall& c) {
  const T *a = c.reads[0].as<T>(), *b = c.reads[1].as<T>();
  T* y = c.writes[0].as<T>();
  each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = a[i] + b[i]; });
}

// Reads: dy. Writes: da, db.
template <class T>
void add_backward(const KernelCall& c) {
  const T* dy = c.reads[0].as<T>();
  for (const std::size_t write : {0, 1}) each_gradient<T>(c, write, [=](std::int64_t i) { return dy[i]; });
}

// Reads: src. Writes: dst, which holds a value.
template <class T>
void accumulate(const KernelCall& c) {
  const T* src = c.reads[0].as<T>();
  T* dst = c.writes[0].as<T>();
  each(c, c.reads[0].elements(), [=](std::int64_t i) { dst[i] += src[i]; });
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  table.add("gelu", Pass::kF, gelu_forward<float>, gelu_forward<double>);
  table.add("gelu", Pass::kI, gelu_backward<float>, gelu_backward<double>);
  table.add("swiglu", Pass::kF, swiglu_forward<float>, swiglu_forward<double>);
  table.add("swiglu", Pass::kI, swiglu_backward<float>, swiglu_backward<double>);
  table.add("add", Pass::kF, add_forward<float>, add_forward<double>);
  table.add("add", Pass::kI, add_backward<float>, add_backward<double>);
  table.add("accumulate", Pass::kI, accumulate<float>, accumulate<double>);
}

}  // namespace sextant
