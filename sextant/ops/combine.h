#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// The weighted sum of a token's visits, the mirror of dispatch. Inputs: y[B S A D], weights[B S A], experts[B S A]
/// (i32), then bias[E D] of the experts' last product if given, which is added to every visit once. Output: [B S D].
class Combine final : public Op {
 public:
  std::string_view kind() const override { return "combine"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{0, 1, 2}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
