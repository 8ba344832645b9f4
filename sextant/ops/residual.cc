#include "sextant/ops/residual.h"

namespace sextant {

std::variant<Row, Refusal> Residual::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  return dropout_row(rule, in, axis);
}

Work Residual::work(Pass pass, std::span<const TensorSpec> local) const {
  const double flops = 2.0 * static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return pass == Pass::kF ? Work{flops, flops, x * 2, x} : Work{flops, flops, x, x * 2};
}

}  // namespace sextant
