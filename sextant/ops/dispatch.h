#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// A row for each visit of a token to an expert, in the order of the experts. Inputs: x[B S D], experts[B S A] (i32).
/// Output: y[B S A D]; as many rows as tokens times visits, whatever the router decides (nothing is dropped).
class Dispatch final : public Op {
 public:
  std::string_view kind() const override { return "dispatch"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
