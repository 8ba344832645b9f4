#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// Multi-head latent attention (DeepSeek-V2, section 2.1): attention whose keys are a part per head and a rotary part
/// that all heads share. Inputs: q[B S H K], k[B S H N], r[B S R] (K = N + R), v[B S H U], first[B S], last[B S] (i32).
/// Outputs: o[B S H U] and the log-sum-exp [B S H].
class LatentAttention final : public Op {
 public:
  std::string_view kind() const override { return "latent_attention"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind cp_kind) const override;
  Needs needs(Pass) const override { return {{0, 1, 2, 3, 4, 5}, {0, 1}}; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
