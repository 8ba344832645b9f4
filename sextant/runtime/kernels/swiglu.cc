#include "sextant/ops/swiglu.h"

#include "sextant/runtime/kernels/elementwise.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

// Reads: gate, up, (weights of the rows). Writes: y.
template <class T>
void swiglu_forward(const KernelCall& c) {
  const T *gate = c.reads[0].as<T>(), *up = c.reads[1].as<T>();
  T* y = c.writes[0].as<T>();
  if (c.reads.size() == 2) {
    each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = gate[i] * logistic(gate[i]) * up[i]; });
    return;
  }
  const T* weights = c.reads[2].as<T>();
  const std::int64_t width = c.reads[0].last(1);
  each(c, c.reads[0].elements(),
       [=](std::int64_t i) { y[i] = gate[i] * logistic(gate[i]) * up[i] * weights[i / width]; });
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

// Reads: gate, up, weights, dy. Writes: dgate, dup, dweights.
template <class T>
void weighed_swiglu_backward(const KernelCall& c) {
  const T *gate = c.reads[0].as<T>(), *up = c.reads[1].as<T>(), *weights = c.reads[2].as<T>(), *dy = c.reads[3].as<T>();
  const std::int64_t width = c.reads[0].last(1);
  each_gradient<T>(c, 0, [=](std::int64_t i) {
    const T s = logistic(gate[i]);
    return weights[i / width] * dy[i] * up[i] * s * (T{1} + gate[i] * (T{1} - s));
  });
  each_gradient<T>(c, 1, [=](std::int64_t i) { return weights[i / width] * dy[i] * gate[i] * logistic(gate[i]); });
  T* dweights = c.writes[2].as<T>();
  c.team.split(c.reads[0].rows(1), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T sum = c.add[2] ? dweights[row] : T{0};
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) sum += dy[i] * gate[i] * logistic(gate[i]) * up[i];
      dweights[row] = sum;
    }
  });
}

template <class T>
void swiglu_input(const KernelCall& c) {
  c.reads.size() == 3 ? swiglu_backward<T>(c) : weighed_swiglu_backward<T>(c);
}

}  // namespace

void add_swiglu_kernels(KernelTable& table) {
  table.add("swiglu", Pass::kF, swiglu_forward<float>, swiglu_forward<double>);
  table.add("swiglu", Pass::kI, swiglu_input<float>, swiglu_input<double>);
}

}  // namespace sextant
