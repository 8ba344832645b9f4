#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// cap tanh(x / cap) of every element (Gemma 2's logits, when they are wanted themselves). Input: x of any shape.
class Softcap final : public Op {
 public:
  explicit Softcap(double most) : cap(most) {}
  std::string_view kind() const override { return "softcap"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{0}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const double cap;
};

}  // namespace sextant
