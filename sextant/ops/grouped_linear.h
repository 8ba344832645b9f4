#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// A product of each row with the matrix of its expert. Inputs: x[B S A in], w[E out in], experts[B S A] (i32), then
/// b[E out] if given. Output: y[B S A out]. Over one axis it behaves as a linear: w S(out) and w S(in) split every
/// expert.
class GroupedLinear final : public Op {
 public:
  std::string_view kind() const override { return "grouped_linear"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass pass) const override { return pass == Pass::kW ? Needs{{0, 2}, {}} : Needs{{1, 2}, {}}; }
  Pass gradient_pass(int input) const override { return input == 1 ? Pass::kW : Pass::kI; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
