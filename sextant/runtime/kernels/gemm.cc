#include "sextant/runtime/kernels/gemm.h"

#include <cstring>

namespace sextant {

template <class T>
void gemm_reference(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                    std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += (ta == Transpose::kYes ? a[l * lda + i] : a[i * lda + l]) *
               (tb == Transpose::kYes ? b[j * ldb + l] : b[l * ldb + j]);
      c[i * ldc + j] = beta == 0 ? sum : sum + beta * c[i * ldc + j];
    }
}

namespace portable {
namespace {

template <class T>
void scale_row(T* row, std::int64_t n, T beta) {
  if (beta == 0)
    std::memset(row, 0, static_cast<std::size_t>(n) * sizeof(T));
  else if (beta != 1)
    for (std::int64_t j = 0; j < n; ++j) row[j] *= beta;
}

// c += a b with rows of b contiguous: four steps of k a pass, so that each row of c is read and written less often.
template <class T, class A>
void row_form(std::int64_t m, std::int64_t n, std::int64_t k, A at, const T* b, std::int64_t ldb, T beta, T* c,
              std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    scale_row(row, n, beta);
    std::int64_t l = 0;
    for (; l + 4 <= k; l += 4) {
      const T a0 = at(i, l), a1 = at(i, l + 1), a2 = at(i, l + 2), a3 = at(i, l + 3);
      const T *b0 = b + l * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) row[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
    }
    for (; l < k; ++l) {
      const T a0 = at(i, l);
      const T* b0 = b + l * ldb;
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) row[j] += a0 * b0[j];
    }
  }
}

}  // namespace

template <class T>
void gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda,
          const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  if (tb == Transpose::kNo) {
    if (ta == Transpose::kNo)
      row_form<T>(
          m, n, k, [=](std::int64_t i, std::int64_t l) { return a[i * lda + l]; }, b, ldb, beta, c, ldc);
    else
      row_form<T>(
          m, n, k, [=](std::int64_t i, std::int64_t l) { return a[l * lda + i]; }, b, ldb, beta, c, ldc);
    return;
  }
  // Both operands run along k: dot products, two columns of c at once.
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; j += 2) {
      const std::int64_t second = j + 1 < n ? j + 1 : j;
      const T *b0 = b + j * ldb, *b1 = b + second * ldb;
      T s0 = 0, s1 = 0;
      if (ta == Transpose::kNo) {
        const T* x = a + i * lda;
#pragma omp simd reduction(+ : s0, s1)
        for (std::int64_t l = 0; l < k; ++l) s0 += x[l] * b0[l], s1 += x[l] * b1[l];
      } else {
        for (std::int64_t l = 0; l < k; ++l) s0 += a[l * lda + i] * b0[l], s1 += a[l * lda + i] * b1[l];
      }
      T* out = c + i * ldc;
      out[j] = beta == 0 ? s0 : s0 + beta * out[j];
      if (second != j) out[second] = beta == 0 ? s1 : s1 + beta * out[second];
    }
}

template void gemm<float>(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, const float*, std::int64_t,
                          const float*, std::int64_t, float, float*, std::int64_t);
template void gemm<double>(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, const double*, std::int64_t,
                           const double*, std::int64_t, double, double*, std::int64_t);

}  // namespace portable

template <>
void gemm<double>(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                  std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  portable::gemm(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

// A product is split where each thread reads all of the smaller operand and writes its own columns or rows of the
// result; 16 floats are a cache line.
template <class T>
void product_forward(Team& team, std::int64_t m, std::int64_t n, std::int64_t k, const T* x, const T* w, const T* bias,
                     T* y) {
  team.split(n, 16, [&](std::int64_t begin, std::int64_t end) {
    gemm<T>(Transpose::kNo, Transpose::kYes, m, end - begin, k, x, k, w + begin * k, k, 0, y + begin, n);
    if (!bias) return;
    for (std::int64_t i = 0; i < m; ++i) {
      T* row = y + i * n;
#pragma omp simd
      for (std::int64_t j = begin; j < end; ++j) row[j] += bias[j];
    }
  });
}

template <class T>
void product_input(Team& team, std::int64_t m, std::int64_t n, std::int64_t k, const T* dy, const T* w, bool add,
                   T* dx) {
  team.split(k, 16, [&](std::int64_t begin, std::int64_t end) {
    gemm<T>(Transpose::kNo, Transpose::kNo, m, end - begin, n, dy, n, w + begin, k, add ? 1 : 0, dx + begin, k);
  });
}

template <class T>
void product_weight(Team& team, std::int64_t m, std::int64_t n, std::int64_t k, const T* dy, const T* x, bool add,
                    T* dw) {
  team.split(n, 16, [&](std::int64_t begin, std::int64_t end) {
    gemm<T>(Transpose::kYes, Transpose::kNo, end - begin, k, m, dy + begin, n, x, k, add ? 1 : 0, dw + begin * k, k);
  });
}

#define SEXTANT_INSTANTIATE(T)                                                                                         \
  template void gemm_reference<T>(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, const T*,            \
                                  std::int64_t, const T*, std::int64_t, T, T*, std::int64_t);                          \
  template void product_forward<T>(Team&, std::int64_t, std::int64_t, std::int64_t, const T*, const T*, const T*, T*); \
  template void product_input<T>(Team&, std::int64_t, std::int64_t, std::int64_t, const T*, const T*, bool, T*);       \
  template void product_weight<T>(Team&, std::int64_t, std::int64_t, std::int64_t, const T*, const T*, bool, T*);
SEXTANT_INSTANTIATE(float)
SEXTANT_INSTANTIATE(double)

}  // namespace sextant
