#include "sextant/ops/dropout.h"

namespace sextant {

std::variant<Row, Refusal> dropout_row(std::span<const TensorSpec> in, Axis axis) {
  const Placement x = in[0].on(axis);
  if (x.kind == Kind::kShard && x.dim == in[0].dims.back().dim) return Refusal{"dropout needs whole channels"};
  return element_wise_row(in, axis);
}

std::variant<Row, Refusal> Dropout::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  return dropout_row(in, axis);
}

Work Dropout::work(Pass, std::span<const TensorSpec> local) const {
  const double flops = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return {flops, flops, x, x};
}

}  // namespace sextant
