#include "sextant/ops/add.h"

namespace sextant {

std::variant<Row, Refusal> Add::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  if (in[0].on(axis).kind == Kind::kPartial && in[1].on(axis).kind == Kind::kPartial)
    return Row{{partial(), partial()}, {partial()}};
  return element_wise_row(in, axis);
}

Work Add::work(Pass pass, std::span<const TensorSpec> local) const {
  const double flops = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return pass == Pass::kF ? Work{flops, flops, x * 2, x} : Work{0, 0, x, x * 2};
}

}  // namespace sextant
