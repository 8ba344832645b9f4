#include "sextant/ops/norm.h"

#include <cmath>
#include <vector>

#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/kernels/norm.h"

namespace sextant {
namespace {

// Elements of a row that is split over ranks, as often as a sum over all of them counts each: kv heads that neighbours
// hold twice enter a sum of squares twice, and of a mean of gradients each of them takes its half.
std::int64_t counted_elements(const View& w) {
  return w.elements() / w.size(w.spec->dims[0].dim) * w.all_rows * w.copies;
}

// An RMS norm whose rows are split over ranks (OLMo-2's, over heads): the sums of squares are completed across them.
template <class T>
void split_rms_forward(const KernelCall& c) {
  const std::int64_t n = c.reads[1].elements(), rows = c.reads[0].elements() / n;
  const auto whole = static_cast<T>(counted_elements(c.reads[1]));
  const T *x = c.reads[0].as<T>(), *w = c.reads[1].as<T>();
  T *y = c.writes[0].as<T>(), *inverse = c.writes[1].as<T>();
  const Norm& op = static_cast<const Norm&>(c.op);
  const T more = op.one_more ? T{1} : T{0};
  for (std::int64_t r = 0; r < rows; ++r) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += x[r * n + i] * x[r * n + i];
    inverse[r] = sum;
  }
  c.across->sum(inverse, rows, sizeof(T) == 8 ? DType::kF64 : DType::kF32);
  for (std::int64_t r = 0; r < rows; ++r) {
    inverse[r] = 1 / std::sqrt(inverse[r] / whole + static_cast<T>(op.epsilon));
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[r * n + i] = x[r * n + i] * inverse[r] * (more + w[i]);
  }
}

// Rows of n elements. Layer norm: reads x, w, b; writes y, mean, 1/std. RMS norm: reads x, w; writes y, 1/rms.
template <class T, bool layer>
void norm_forward(const KernelCall& c) {
  if constexpr (!layer)
    if (c.across) return split_rms_forward<T>(c);
  const std::int64_t n = c.reads[1].elements();
  const T* x = c.reads[0].as<T>();
  const NormRows<T, layer> rows{n,
                                static_cast<T>(static_cast<const Norm&>(c.op).epsilon),
                                static_cast<const Norm&>(c.op).one_more ? T{1} : T{0},
                                c.reads[1].as<T>(),
                                c.reads.size() > 2 ? c.reads[2].as<T>() : nullptr,
                                c.writes[0].as<T>(),
                                layer ? c.writes[1].as<T>() : nullptr,
                                c.writes[layer ? 2 : 1].as<T>()};
  c.team.split(c.reads[0].elements() / n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) rows.run(r, x + r * n);
  });
}

// Reads: x, w, (mean), 1/std, dy. Writes: dx, dw, (db). With h = (x - mean) / std: dx = (g - avg(g) - h avg(g h)) /
// std, g = dy w; RMS norm has no mean, so no avg(g). A layer norm
// without bias has no db.
template <class T, bool layer>
void norm_backward(const KernelCall& c) {
  const std::int64_t n = c.reads[1].elements(), rows = c.reads[0].elements() / n;
  const T *x = c.reads[0].as<T>(), *w = c.reads[1].as<T>(), *mean = layer ? c.reads[2].as<T>() : nullptr;
  const T *inverse = c.reads[layer ? 3 : 2].as<T>(), *dy = c.reads[layer ? 4 : 3].as<T>();
  T *dx = c.writes[0].as<T>(), *dw = c.writes[1].as<T>(), *db = c.writes.size() > 2 ? c.writes[2].as<T>() : nullptr;
  const T more = static_cast<const Norm&>(c.op).one_more ? T{1} : T{0};
  const auto sums = [&](std::int64_t r) {
    const T *row = x + r * n, *grad = dy + r * n;
    const T mu = layer ? mean[r] : T{0}, inv = inverse[r];
    T sum_g = 0, sum_gh = 0;
#pragma omp simd reduction(+ : sum_g, sum_gh)
    for (std::int64_t i = 0; i < n; ++i) {
      const T g = grad[i] * (more + w[i]);
      sum_g += g;
      sum_gh += g * (row[i] - mu) * inv;
    }
    return std::pair{sum_g, sum_gh};
  };
  // Rows that are split over ranks: their sums are completed first.
  std::vector<T> across;
  auto whole = static_cast<T>(n);
  if (c.across) {
    whole = static_cast<T>(counted_elements(c.reads[1]));
    for (std::int64_t r = 0; r < rows; ++r) across.push_back(sums(r).second);
    c.across->sum(across.data(), rows, sizeof(T) == 8 ? DType::kF64 : DType::kF32);
  }
  c.team.split(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T *row = x + r * n, *grad = dy + r * n;
      const T mu = layer ? mean[r] : T{0}, inv = inverse[r];
      auto [sum_g, sum_gh] = c.across ? std::pair{T{0}, across[static_cast<std::size_t>(r)]} : sums(r);
      sum_g = layer ? sum_g / whole : T{0};
      sum_gh /= whole;
      T* out = dx + r * n;
      if (c.add[0]) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
          out[i] += (grad[i] * (more + w[i]) - sum_g - (row[i] - mu) * inv * sum_gh) * inv;
      } else {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
          out[i] = (grad[i] * (more + w[i]) - sum_g - (row[i] - mu) * inv * sum_gh) * inv;
      }
    }
  });
  // Sums over rows: threads split the columns, so the order of a sum does not depend on their number.
  c.team.split(n, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (!c.add[1]) dw[i] = 0;
      if (db && !c.add[2]) db[i] = 0;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const T *row = x + r * n, *grad = dy + r * n;
      const T mu = layer ? mean[r] : T{0}, inv = inverse[r];
      if constexpr (layer) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) dw[i] += grad[i] * (row[i] - mu) * inv;
        if (!db) continue;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) db[i] += grad[i];
      } else {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) dw[i] += grad[i] * row[i] * inv;
      }
    }
  });
}

}  // namespace

void add_norm_kernels(KernelTable& table) {
  table.add("layernorm", Pass::kF, norm_forward<float, true>, norm_forward<double, true>);
  table.add("layernorm", Pass::kI, norm_backward<float, true>, norm_backward<double, true>);
  table.add("rmsnorm", Pass::kF, norm_forward<float, false>, norm_forward<double, false>);
  table.add("rmsnorm", Pass::kI, norm_backward<float, false>, norm_backward<double, false>);
}

}  // namespace sextant
