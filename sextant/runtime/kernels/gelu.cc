#include "sextant/ops/gelu.h"

#include <cmath>
#include <numbers>

#include "sextant/runtime/kernels/elementwise.h"
#include "sextant/runtime/kernels/gelu.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

template <class T>
T gelu_erf(T x) {
  return T{0.5} * x * (T{1} + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2)));
}
template <class T>
T gelu_erf_slope(T x) {
  return T{0.5} * (T{1} + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2))) +
         x * static_cast<T>(kRootTwoOverPi / 2) * fast_exp(T{-0.5} * x * x);
}

template <class T>
void gelu_forward(const KernelCall& c) {
  const T* x = c.reads[0].as<T>();
  T* y = c.writes[0].as<T>();
  if (static_cast<const Gelu&>(c.op).gelu == GeluKind::kTanh)
    each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = gelu_tanh(x[i]); });
  else
    each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = gelu_erf(x[i]); });
}

// Reads: x, dy. Writes: dx.
template <class T>
void gelu_backward(const KernelCall& c) {
  const T *x = c.reads[0].as<T>(), *dy = c.reads[1].as<T>();
  if (static_cast<const Gelu&>(c.op).gelu == GeluKind::kTanh)
    each_gradient<T>(c, 0, [=](std::int64_t i) { return dy[i] * gelu_tanh_slope(x[i]); });
  else
    each_gradient<T>(c, 0, [=](std::int64_t i) { return dy[i] * gelu_erf_slope(x[i]); });
}

}  // namespace

void add_gelu_kernels(KernelTable& table) {
  table.add("gelu", Pass::kF, gelu_forward<float>, gelu_forward<double>);
  table.add("gelu", Pass::kI, gelu_backward<float>, gelu_backward<double>);
}

}  // namespace sextant
