#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// gpt-oss's gate: (min(max(up, -limit), limit) + 1) g sigmoid(1.702 g) with g = min(gate, limit). Inputs: gate, up of
/// one shape.
class ClampedSwiglu final : public Op {
 public:
  explicit ClampedSwiglu(double most) : limit(most) {}
  std::string_view kind() const override { return "clamped_swiglu"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{0, 1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const double limit;
};

}  // namespace sextant
