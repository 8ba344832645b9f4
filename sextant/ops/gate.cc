#include "sextant/ops/gate.h"

namespace sextant {

Work Gate::work(Pass pass, std::span<const TensorSpec> local) const {
  const double flops = (pass == Pass::kF ? forward_ : backward_) * static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return pass == Pass::kF ? Work{flops, flops, x * 2, x} : Work{flops, flops, x * 3, x * 2};
}

}  // namespace sextant
