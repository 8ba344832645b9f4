#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// Neighbouring forward steps as one: `first`, then `second`, whose input `joined` is the result of `first`. Made by
/// the fuse pass, behind everything that reasons about placements. Inputs: those of `first`, then those of `second` but
/// for the joined one. Outputs: those of `first` (its result is still wanted by others), then those of `second`.
class Fused final : public Op {
 public:
  Fused(OpPtr first_part, OpPtr second_part, int joined_input, int first_inputs);
  std::string_view kind() const override { return kind_; }  ///< "residual+layernorm"
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec>, Axis, CpKind) const override {
    return Refusal{"ops are fused after they are placed"};
  }
  Needs needs(Pass) const override { return {}; }
  /// The parts' less the second reading of the joined tensor.
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const OpPtr first, second;
  const int joined, num_first_inputs;

 private:
  std::vector<TensorSpec> second_inputs(std::span<const TensorSpec> in) const;
  std::string kind_;
};

}  // namespace sextant
