#pragma once
// Matrix products, row-major, behind one narrow interface: oneDNN for float where the build has it, else our own loops.
#include <cstdint>

#include "sextant/runtime/kernels/team.h"

namespace sextant {

enum class Transpose : bool { kNo, kYes };

/// c[m n] = op(a) op(b) + beta c on the calling thread; op(a) is m x k, op(b) k x n. Leading dimensions in elements.
template <class T>
void gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda,
          const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc);
template <>
void gemm<float>(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                 std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
template <>
void gemm<double>(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                  std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc);
/// The plain twin of gemm: one multiplication after the other, in order of k.
template <class T>
void gemm_reference(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                    std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc);

/// The three products of a linear op over a team. y[m n] = x[m k] w[n k]^T (+ bias[n] if not null).
template <class T>
void product_forward(Team& team, std::int64_t m, std::int64_t n, std::int64_t k, const T* x, const T* w, const T* bias,
                     T* y);
/// dx[m k] (+)= dy[m n] w[n k].
template <class T>
void product_input(Team& team, std::int64_t m, std::int64_t n, std::int64_t k, const T* dy, const T* w, bool add,
                   T* dx);
/// dw[n k] (+)= dy[m n]^T x[m k].
template <class T>
void product_weight(Team& team, std::int64_t m, std::int64_t n, std::int64_t k, const T* dy, const T* x, bool add,
                    T* dw);

/// The library below may bring threads of its own; a thread that calls this gets none. Called by every thread of a
/// Team.
void gemm_use_one_thread();
/// "oneDNN 2.6.3" or "portable".
const char* gemm_library();

namespace portable {
/// Our own loops, vectorised by the compiler: all of float64, and float32 without oneDNN.
template <class T>
void gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda,
          const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc);
}  // namespace portable

}  // namespace sextant
