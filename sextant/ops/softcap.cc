#include "sextant/ops/softcap.h"

namespace sextant {

Work Softcap::work(Pass pass, std::span<const TensorSpec> local) const {
  const double flops = (pass == Pass::kF ? 6.0 : 4.0) * static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local);
  return pass == Pass::kF ? Work{flops, flops, x, x} : Work{2 * flops, 2 * flops, x * 2, x};
}

}  // namespace sextant
