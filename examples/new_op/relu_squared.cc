#include "relu_squared.h"

#include <algorithm>

namespace sextant {

Work ReluSquared::work(Pass, std::span<const TensorSpec> local) const {
  const double flops = 2.0 * static_cast<double>(local[0].elements());
  return {flops, flops, total_bytes(local), total_bytes(local)};
}

namespace {

template <class T>
void forward(const KernelCall& c) {
  const T* x = c.reads[0].as<T>();
  T* y = c.writes[0].as<T>();
  for (std::int64_t i = 0; i < c.reads[0].elements(); ++i) y[i] = std::max(x[i], T{0}) * std::max(x[i], T{0});
}

template <class T>
void backward(const KernelCall& c) {
  const T *x = c.reads[0].as<T>(), *dy = c.reads[1].as<T>();
  T* dx = c.writes[0].as<T>();
  for (std::int64_t i = 0; i < c.reads[0].elements(); ++i)
    dx[i] = (c.add[0] ? dx[i] : T{0}) + 2 * std::max(x[i], T{0}) * dy[i];
}

}  // namespace

void add_relu_squared_kernels(KernelTable& table) {
  table.add("relu_squared", Pass::kF, forward<float>, forward<double>);
  table.add("relu_squared", Pass::kI, backward<float>, backward<double>);
}

}  // namespace sextant
