#include "sextant/ops/linear.h"

#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {
namespace {

// Reads: x, w, (b). Writes: y.
template <class T>
void linear_forward(const KernelCall& c) {
  const auto [m, n, k] = matrix_sizes(*c.reads[0].spec, *c.reads[1].spec);
  product_forward<T>(c.team, m, n, k, c.reads[0].as<T>(), c.reads[1].as<T>(),
                     c.reads.size() > 2 ? c.reads[2].as<T>() : nullptr, c.writes[0].as<T>());
}

// Reads: w, dy. Writes: dx.
template <class T>
void linear_input(const KernelCall& c) {
  const auto [m, n, k] = matrix_sizes(*c.writes[0].spec, *c.reads[0].spec);
  product_input<T>(c.team, m, n, k, c.reads[1].as<T>(), c.reads[0].as<T>(), c.add[0], c.writes[0].as<T>());
}

// Reads: x, dy. Writes: -, dw, (db).
template <class T>
void linear_weight(const KernelCall& c) {
  const auto [m, n, k] = matrix_sizes(*c.reads[0].spec, *c.writes[1].spec);
  const T* dy = c.reads[1].as<T>();
  product_weight<T>(c.team, m, n, k, dy, c.reads[0].as<T>(), c.add[1], c.writes[1].as<T>());
  if (c.writes.size() < 3) return;
  T* db = c.writes[2].as<T>();
  c.team.split(n, 16, [&, rows = m, stride = n](std::int64_t begin, std::int64_t end) {
    if (!c.add[2])
      for (std::int64_t j = begin; j < end; ++j) db[j] = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* row = dy + i * stride;
#pragma omp simd
      for (std::int64_t j = begin; j < end; ++j) db[j] += row[j];
    }
  });
}

}  // namespace

void add_linear_kernels(KernelTable& table) {
  table.add("linear", Pass::kF, linear_forward<float>, linear_forward<double>);
  table.add("linear", Pass::kI, linear_input<float>, linear_input<double>);
  table.add("linear", Pass::kW, linear_weight<float>, linear_weight<double>);
}

}  // namespace sextant
