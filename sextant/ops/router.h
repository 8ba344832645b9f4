#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// How a router makes weights of its scores.
struct RouterRule {
  std::int64_t top_k = 1;
  bool sigmoid = false;                        ///< of each score; else softmax over the experts
  bool normalises = false;                     ///< the chosen weights to sum 1
  double scale = 1;                            ///< of the weights
  std::int64_t groups = 1, groups_chosen = 1;  ///< experts in groups, of which so many are open to a token (DeepSeek)
  double auxiliary = 0;                        ///< weight of the balance loss per sequence (DeepSeek-V3, section 2.1.2)
};

/// Which experts a token visits, and with what weight. Inputs: x[B S D], w[E D], then b[E] if `has_bias`. Outputs:
/// weights[B S A] and experts[B S A] (i32), A = top_k.
class Router final : public Op {
 public:
  Router(RouterRule router_rule, bool with_bias) : rule(router_rule), has_bias(with_bias) {}
  std::string_view kind() const override { return "router"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{0, 1}, {0, 1}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  bool is_product() const override { return true; }
  /// Scores of all experts.
  Bytes scratch(Pass, std::span<const TensorSpec> local, int) const override;
  const RouterRule rule;
  const bool has_bias;
};

}  // namespace sextant
