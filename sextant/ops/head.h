#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// What the head does to logits and loss beyond the product and the cross-entropy.
struct HeadRule {
  double softcap = 0;          ///< c > 0: every logit is c tanh(logit / c) (Gemma 2)
  double label_smoothing = 0;  ///< e: the target is 1 - e at the label and e / V everywhere (Szegedy et al. 2016)
  bool stored_logits = false;  ///< kept whole, with their gradient, as most frameworks do; priced only
  double z_loss = 0;           ///< adds so much of the squared log-sum-exp (PaLM, OLMo 2)
};

/// Logits with cross-entropy, summed over valid tokens. Inputs: x[B S D], w[V D], labels[B S] (i32; negative =
/// ignored). Output: loss, one f64. In training F is empty: I makes logits by chunks of tokens, the loss, dx and dw at
/// once, so that logits are never stored. The gradient is seeded with 1 / (valid tokens of the step). The loss is all
/// that is trained on: smoothing and z-loss are in it.
class Head final : public Op {
 public:
  explicit Head(HeadRule head_rule = {}) : rule(head_rule) {}
  std::string_view kind() const override { return "head"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass pass) const override { return pass == Pass::kI ? Needs{{0, 1, 2}, {}} : Needs{}; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
  Pass result_pass() const override { return Pass::kI; }
  /// One chunk of logits, and a loss per token of it.
  int inside_calls(std::span<const TensorSpec> local) const override;
  Bytes scratch(Pass pass, std::span<const TensorSpec> local, int threads) const override;
  /// Tokens of a chunk: equal chunks whose float logits stay within 32 MB, about the last-level cache. Smaller ones
  /// starve the products.
  static std::int64_t chunk(std::int64_t tokens, std::int64_t vocabulary);
  const HeadRule rule;
};

}  // namespace sextant
