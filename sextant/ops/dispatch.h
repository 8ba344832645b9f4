#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// A row for each visit of a token to an expert, in the order of the experts. Inputs: x, with the dims of tokens [B S]
/// or of their visits [B S A] and what is left, and experts[B S A] (i32), which tokens visit. Output: [E X ...] with
/// what is left of x: X rows of each expert, as many as visits if the router spreads them evenly (nothing is dropped;
/// how many there are is known at run time), times `imbalance` on the rank that has most.
///
/// Changes the grid, and moves nothing: tokens lie in slices over every axis of dp_replicate, dp_shard, cp, tp, each
/// with one rank; the rows lie over dp_replicate, edp, ep, etp, which are the same ranks. That experts live elsewhere
/// is a conversion of the rows over ep, S(X) -> S(E): an all-to-all.
class Dispatch final : public Op {
 public:
  explicit Dispatch(std::int64_t num_experts, double expert_imbalance = 1)
      : experts(num_experts), imbalance(expert_imbalance) {}
  std::string_view kind() const override { return "dispatch"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  /// Where each visit lies, and how many each expert has.
  Bytes scratch(Pass, std::span<const TensorSpec> local, int) const override;
  const std::int64_t experts;
  const double imbalance;
};
/// Of the list that dispatch and combine follow.
Bytes routing_bytes(const TensorSpec& visited, std::int64_t experts);

/// How a tensor of tokens lies over an axis of the dense grid when each token is with one rank: as it does, if it is
/// sliced, else in slices of the sequence.
Placement one_rank_each(const TensorSpec& tokens, Axis axis);

}  // namespace sextant
