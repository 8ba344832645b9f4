#include "sextant/ops/add.h"

#include "sextant/runtime/kernels/elementwise.h"

namespace sextant {
namespace {

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

void add_add_kernels(KernelTable& table) {
  table.add("add", Pass::kF, add_forward<float>, add_forward<double>);
  table.add("add", Pass::kI, add_backward<float>, add_backward<double>);
  table.add("accumulate", Pass::kI, accumulate<float>, accumulate<double>);
}

}  // namespace sextant
