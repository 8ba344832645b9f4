#pragma once
#include <cmath>
#include <cstdint>

namespace sextant {

/// Normalises rows of n elements; what the norm kernels and those fused with them share. Null where RMS norm has none.
template <class T, bool layer>
struct NormRows {
  std::int64_t n;
  T epsilon, more;  // what is added to w
  const T *w, *b;
  T *y, *mean, *inverse;

  void run(std::int64_t r, const T* x) const {
    T mu = 0, squares = 0;
    if constexpr (layer) {
#pragma omp simd reduction(+ : mu)
      for (std::int64_t i = 0; i < n; ++i) mu += x[i];
      mu /= static_cast<T>(n);
    }
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i) squares += (x[i] - mu) * (x[i] - mu);
    const T inv = 1 / std::sqrt(squares / static_cast<T>(n) + epsilon);
    T* out = y + r * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mu) * inv * (more + w[i]);
    if (layer && b) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) out[i] += b[i];
    }
    if constexpr (layer) mean[r] = mu;
    inverse[r] = inv;
  }
};

}  // namespace sextant
