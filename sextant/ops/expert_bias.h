#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// The bias of the experts' last product: y = x + weight b. Inputs: x[E X D], whose rows are weighed already, b[E D],
/// weights[E X]. A product over a split dim yields a sum, so it is added behind its conversion, once.
class ExpertBias final : public Op {
 public:
  std::string_view kind() const override { return "expert_bias"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype, .grid = in[0].grid}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{1, 2}, {}}; }
  Work work(Pass, std::span<const TensorSpec> local) const override {
    const double flops = 2 * static_cast<double>(local[0].elements());
    const Bytes x = total_bytes(local.subspan(0, 1));
    return {flops, flops, x, x};
  }
};

}  // namespace sextant
