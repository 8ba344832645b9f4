#include "sextant/ops/dropout.h"

namespace sextant {

std::vector<TensorSpec> with_mask(const DropoutRule& rule, const TensorSpec& x) {
  std::vector<TensorSpec> out = {{.dims = x.dims, .dtype = x.dtype}};
  if (rule.stored && rule.probability > 0) out.push_back({.dims = x.dims, .dtype = DType::kU8});
  return out;
}

std::variant<Row, Refusal> dropout_row(const DropoutRule& rule, std::span<const TensorSpec> in, Axis axis) {
  const Placement x = in[0].on(axis);
  if (x.kind == Kind::kShard && x.dim == in[0].dims.back().dim) return Refusal{"dropout needs whole channels"};
  return element_wise_row(in, axis, with_mask(rule, in[0]).size());
}

std::variant<Row, Refusal> Dropout::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  return dropout_row(rule, in, axis);
}

Work Dropout::work(Pass, std::span<const TensorSpec> local) const {
  const double flops = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return {flops, flops, x, x};
}

}  // namespace sextant
