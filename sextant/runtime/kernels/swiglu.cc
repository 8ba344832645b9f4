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

// Reads: gate, up, weights of the rows. Writes: y. A row of no weight is zero: most that there is room for are.
template <class T>
void weighed_swiglu_forward(const KernelCall& c) {
  const std::int64_t width = c.reads[0].last(1);
  c.team.split(c.reads[0].rows(1), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T *gate = c.reads[0].as<T>() + row * width, *up = c.reads[1].as<T>() + row * width;
      const T weight = c.reads[2].as<T>()[row];
      T* y = c.writes[0].as<T>() + row * width;
      if (weight == T{0}) {
        std::fill(y, y + width, T{0});
        continue;
      }
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) y[i] = gate[i] * logistic(gate[i]) * up[i] * weight;
    }
  });
}

// Reads: gate, up, weights, dy. Writes: dgate, dup, dweights.
template <class T>
void weighed_swiglu_backward(const KernelCall& c) {
  const std::int64_t width = c.reads[0].last(1);
  c.team.split(c.reads[0].rows(1), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * width;
      const T *gate = c.reads[0].as<T>() + at, *up = c.reads[1].as<T>() + at, *dy = c.reads[3].as<T>() + at;
      const T weight = c.reads[2].as<T>()[row];
      T *dgate = c.writes[0].as<T>() + at, *dup = c.writes[1].as<T>() + at, *dweight = c.writes[2].as<T>() + row;
      if (!c.add[0]) std::fill(dgate, dgate + width, T{0});
      if (!c.add[1]) std::fill(dup, dup + width, T{0});
      if (!c.add[2]) *dweight = 0;
      if (std::all_of(dy, dy + width, [](T d) { return d == T{0}; })) continue;
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < width; ++i) {
        const T s = logistic(gate[i]), f = gate[i] * s;
        dgate[i] += weight * dy[i] * up[i] * s * (T{1} + gate[i] * (T{1} - s));
        dup[i] += weight * dy[i] * f;
        sum += dy[i] * f * up[i];
      }
      *dweight += sum;
    }
  });
}

template <class T>
void swiglu_output(const KernelCall& c) {
  c.reads.size() == 2 ? swiglu_forward<T>(c) : weighed_swiglu_forward<T>(c);
}

template <class T>
void swiglu_input(const KernelCall& c) {
  c.reads.size() == 3 ? swiglu_backward<T>(c) : weighed_swiglu_backward<T>(c);
}

}  // namespace

void add_swiglu_kernels(KernelTable& table) {
  table.add("swiglu", Pass::kF, swiglu_output<float>, swiglu_output<double>);
  table.add("swiglu", Pass::kI, swiglu_input<float>, swiglu_input<double>);
}

}  // namespace sextant
