// The same symbols as gemm_onednn.cc for a build without it.
#include "sextant/runtime/kernels/gemm.h"

namespace sextant {

template <>
void gemm<float>(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                 std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  portable::gemm(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

void gemm_use_one_thread() {}
const char* gemm_library() { return "portable"; }

}  // namespace sextant
