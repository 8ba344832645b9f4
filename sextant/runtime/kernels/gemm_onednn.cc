// float32 products by oneDNN's sgemm.
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <string>

#include "sextant/base/errors.h"
#include "sextant/runtime/kernels/gemm.h"

namespace sextant {

template <>
void gemm<float>(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                 std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return portable::gemm(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
  const dnnl_status_t status = dnnl_sgemm(ta == Transpose::kYes ? 'T' : 'N', tb == Transpose::kYes ? 'T' : 'N', m, n, k,
                                          1.0F, a, lda, b, ldb, beta, c, ldc);
  check(status == dnnl_success, "oneDNN takes every shape");
}

void gemm_use_one_thread() { omp_set_num_threads(1); }

const char* gemm_library() {
  static const std::string name = [] {
    const dnnl_version_t* v = dnnl_version();
    return str("oneDNN ", v->major, ".", v->minor, ".", v->patch);
  }();
  return name.c_str();
}

}  // namespace sextant
