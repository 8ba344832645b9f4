#include "sextant/ops/dropout.h"

namespace sextant {
namespace {

// Masks are drawn by token and channel; a slice of the channels would need its offset, and nothing splits them.
std::variant<Row, Refusal> whole_channels(std::span<const TensorSpec> in, Axis axis) {
  const Placement x = in[0].on(axis);
  if (x.kind == Kind::kShard && x.dim == in[0].dims.back().dim) return Refusal{"dropout needs whole channels"};
  return element_wise_row(in, axis);
}

}  // namespace

std::variant<Row, Refusal> Dropout::row(std::span<const TensorSpec> in, Axis axis, CpKind) const { return whole_channels(in, axis); }
std::variant<Row, Refusal> Residual::row(std::span<const TensorSpec> in, Axis axis, CpKind) const { return whole_channels(in, axis); }

Work Dropout::work(Pass, std::span<const TensorSpec> local) const {
  const double flops = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return {flops, flops, x, x};
}

Work Residual::work(Pass pass, std::span<const TensorSpec> local) const {
  const double flops = 2.0 * static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return pass == Pass::kF ? Work{flops, flops, x * 2, x} : Work{flops, flops, x, x * 2};
}

}  // namespace sextant
