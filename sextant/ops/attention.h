#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// softmax(q k^T / sqrt(K)) v per head, flash-style: scores are never stored (Dao et al. 2022). Inputs: q[B S H K],
/// k[B S G K], v[B S G K] (H a multiple of G: MHA, GQA, MQA), first[B S] and last[B S] (i32): the keys that a query
/// sees, which covers causal masks, packed documents and windows. Outputs: o[B S H K] and the log-sum-exp [B S H].
class Attention final : public Op {
 public:
  static constexpr std::int64_t kStripe = 64;  ///< queries taken at once
  std::string_view kind() const override { return "attention"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind cp_kind) const override;
  Needs needs(Pass) const override { return {{0, 1, 2, 3, 4}, {0, 1}}; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  Bytes scratch(Pass pass, std::span<const TensorSpec> local, int threads) const override;
};

}  // namespace sextant
