#include "sextant/ops/swiglu.h"

#include "sextant/runtime/kernels/elementwise.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

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

}  // namespace

void add_swiglu_kernels(KernelTable& table) {
  table.add("swiglu", Pass::kF, swiglu_forward<float>, swiglu_forward<double>);
  table.add("swiglu", Pass::kI, swiglu_backward<float>, swiglu_backward<double>);
}

}  // namespace sextant
