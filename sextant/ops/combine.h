#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// The sum of a token's visits, the mirror of dispatch. Inputs: y[E X D], experts[B S A] (i32). Output: [B S D]. What
/// the router weighs visits with is in the rows already.
class Combine final : public Op {
 public:
  std::string_view kind() const override { return "combine"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  Bytes scratch(Pass, std::span<const TensorSpec> local, int) const override;
};

}  // namespace sextant
