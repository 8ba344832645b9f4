#include "sextant/ops/grouped_linear.h"

#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {
namespace {

// Sizes of one expert's product: y[m n] = x[m k] w[n k]^T.
struct Sizes {
  std::int64_t experts, m, n, k;
};
Sizes sizes_of(const View& x, const View& w) {
  const std::int64_t experts = w.size('E');
  std::int64_t m = 1, k = 1;
  for (const Extent& e : x.spec->dims)
    if (e.dim != 'E') (w.spec->has(e.dim) ? k : m) *= e.size;
  return {experts, m, w.elements() / experts / k, k};
}

// Reads: x, w, (b). Writes: y.
template <class T>
void grouped_forward(const KernelCall& c) {
  const auto [experts, m, n, k] = sizes_of(c.reads[0], c.reads[1]);
  for (std::int64_t e = 0; e < experts; ++e)
    product_forward<T>(c.team, m, n, k, c.reads[0].as<T>() + e * m * k, c.reads[1].as<T>() + e * n * k,
                       c.reads.size() > 2 ? c.reads[2].as<T>() + e * n : nullptr, c.writes[0].as<T>() + e * m * n);
}

// Reads: w, dy. Writes: dx, -, (db).
template <class T>
void grouped_input(const KernelCall& c) {
  const auto [experts, m, n, k] = sizes_of(c.writes[0], c.reads[0]);
  for (std::int64_t e = 0; e < experts; ++e)
    product_input<T>(c.team, m, n, k, c.reads[1].as<T>() + e * m * n, c.reads[0].as<T>() + e * n * k, c.add[0],
                     c.writes[0].as<T>() + e * m * k);
  if (c.writes.size() < 3) return;
  const T* dy = c.reads[1].as<T>();
  T* db = c.writes[2].as<T>();
  c.team.split(experts, 1, [&, rows = m, width = n](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e)
      for (std::int64_t j = 0; j < width; ++j) {
        T sum = c.add[2] ? db[e * width + j] : T{0};
        for (std::int64_t i = 0; i < rows; ++i) sum += dy[(e * rows + i) * width + j];
        db[e * width + j] = sum;
      }
  });
}

// Reads: x, dy. Writes: -, dw.
template <class T>
void grouped_weight(const KernelCall& c) {
  const auto [experts, m, n, k] = sizes_of(c.reads[0], c.writes[1]);
  for (std::int64_t e = 0; e < experts; ++e)
    product_weight<T>(c.team, m, n, k, c.reads[1].as<T>() + e * m * n, c.reads[0].as<T>() + e * m * k, c.add[1],
                      c.writes[1].as<T>() + e * n * k);
}

}  // namespace

void add_grouped_linear_kernels(KernelTable& table) {
  table.add("grouped_linear", Pass::kF, grouped_forward<float>, grouped_forward<double>);
  table.add("grouped_linear", Pass::kI, grouped_input<float>, grouped_input<double>);
  table.add("grouped_linear", Pass::kW, grouped_weight<float>, grouped_weight<double>);
}

}  // namespace sextant
