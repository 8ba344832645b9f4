#include "sextant/ops/grouped_linear.h"

#include <cstring>

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

// Calls `body(begin, end)` for every run of rows that are not zero. Rows that nobody visits are, and are not computed.
template <class T>
void for_each_run(const T* rows, std::int64_t count, std::int64_t width, const auto& body) {
  const auto is_zero = [&](std::int64_t row) {
    for (std::int64_t d = 0; d < width; ++d)
      if (rows[row * width + d] != T{0}) return false;
    return true;
  };
  for (std::int64_t begin = 0; begin < count;) {
    while (begin < count && is_zero(begin)) ++begin;
    std::int64_t end = begin;
    while (end < count && !is_zero(end)) ++end;
    if (begin < end) body(begin, end);
    begin = end;
  }
}

// Reads: x, w, (b). Writes: y.
template <class T>
void grouped_forward(const KernelCall& c) {
  const auto [experts, m, n, k] = sizes_of(c.reads[0], c.reads[1]);
  for (std::int64_t e = 0; e < experts; ++e) {
    const T *x = c.reads[0].as<T>() + e * m * k, *w = c.reads[1].as<T>() + e * n * k;
    T* y = c.writes[0].as<T>() + e * m * n;
    if (c.reads.size() > 2) {  // with a bias no row of y is zero
      product_forward<T>(c.team, m, n, k, x, w, c.reads[2].as<T>() + e * n, y);
      continue;
    }
    std::memset(y, 0, static_cast<std::size_t>(m * n) * sizeof(T));
    for_each_run(x, m, k, [&, n = n, k = k](std::int64_t begin, std::int64_t end) {
      product_forward<T>(c.team, end - begin, n, k, x + begin * k, w, nullptr, y + begin * n);
    });
  }
}

// Reads: w, dy. Writes: dx, -, (db).
template <class T>
void grouped_input(const KernelCall& c) {
  const auto [experts, m, n, k] = sizes_of(c.writes[0], c.reads[0]);
  for (std::int64_t e = 0; e < experts; ++e) {
    const T *w = c.reads[0].as<T>() + e * n * k, *dy = c.reads[1].as<T>() + e * m * n;
    T* dx = c.writes[0].as<T>() + e * m * k;
    if (!c.add[0]) std::memset(dx, 0, static_cast<std::size_t>(m * k) * sizeof(T));
    for_each_run(dy, m, n, [&, n = n, k = k](std::int64_t begin, std::int64_t end) {
      product_input<T>(c.team, end - begin, n, k, dy + begin * n, w, c.add[0], dx + begin * k);
    });
  }
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
  for (std::int64_t e = 0; e < experts; ++e) {
    const T *x = c.reads[0].as<T>() + e * m * k, *dy = c.reads[1].as<T>() + e * m * n;
    T* dw = c.writes[1].as<T>() + e * n * k;
    bool add = c.add[1];
    for_each_run(dy, m, n, [&, n = n, k = k](std::int64_t begin, std::int64_t end) {
      product_weight<T>(c.team, end - begin, n, k, dy + begin * n, x + begin * k, add, dw);
      add = true;
    });
    if (!add) std::memset(dw, 0, static_cast<std::size_t>(n * k) * sizeof(T));
  }
}

}  // namespace

void add_grouped_linear_kernels(KernelTable& table) {
  table.add("grouped_linear", Pass::kF, grouped_forward<float>, grouped_forward<double>);
  table.add("grouped_linear", Pass::kI, grouped_input<float>, grouped_input<double>);
  table.add("grouped_linear", Pass::kW, grouped_weight<float>, grouped_weight<double>);
}

}  // namespace sextant
