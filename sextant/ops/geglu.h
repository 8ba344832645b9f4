#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// gelu(gate) * up, GELU by tanh (Shazeer 2020, in Gemma's form). Inputs: gate, up of one shape.
class Geglu final : public Op {
 public:
  std::string_view kind() const override { return "geglu"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{0, 1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
