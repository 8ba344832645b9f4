#include "sextant/ops/geglu.h"

#include "sextant/runtime/kernels/elementwise.h"
#include "sextant/runtime/kernels/gelu.h"

namespace sextant {
namespace {

// Reads: gate, up. Writes: y.
template <class T>
void geglu_forward(const KernelCall& c) {
  const T *gate = c.reads[0].as<T>(), *up = c.reads[1].as<T>();
  T* y = c.writes[0].as<T>();
  each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = gelu_tanh(gate[i]) * up[i]; });
}

// Reads: gate, up, dy. Writes: dgate, dup.
template <class T>
void geglu_backward(const KernelCall& c) {
  const T *gate = c.reads[0].as<T>(), *up = c.reads[1].as<T>(), *dy = c.reads[2].as<T>();
  each_gradient<T>(c, 0, [=](std::int64_t i) { return dy[i] * up[i] * gelu_tanh_slope(gate[i]); });
  each_gradient<T>(c, 1, [=](std::int64_t i) { return dy[i] * gelu_tanh(gate[i]); });
}

}  // namespace

void add_geglu_kernels(KernelTable& table) {
  table.add("geglu", Pass::kF, geglu_forward<float>, geglu_forward<double>);
  table.add("geglu", Pass::kI, geglu_backward<float>, geglu_backward<double>);
}

}  // namespace sextant
