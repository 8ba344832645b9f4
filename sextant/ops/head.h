#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// Logits with cross-entropy, summed over valid tokens. Inputs: x[B S D], w[V D], labels[B S] (i32; negative =
/// ignored). Output: loss, one f64. In training F is empty: I makes logits by chunks of tokens, the loss, dx and dw at
/// once, so that logits are never stored. The gradient is seeded with 1 / (valid tokens of the step). A softcap c > 0
/// makes every logit c tanh(logit / c) (Gemma 2).
class Head final : public Op {
 public:
  explicit Head(double cap = 0) : softcap(cap) {}
  std::string_view kind() const override { return "head"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass pass) const override { return pass == Pass::kI ? Needs{{0, 1, 2}, {}} : Needs{}; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  Pass result_pass() const override { return Pass::kI; }
  /// One chunk of logits, and a loss per token of it.
  int inside_calls(std::span<const TensorSpec> local) const override;
  Bytes scratch(Pass pass, std::span<const TensorSpec> local, int threads) const override;
  /// Tokens of a chunk: equal chunks whose float logits stay within 32 MB, about the last-level cache. Smaller ones
  /// starve the products.
  static std::int64_t chunk(std::int64_t tokens, std::int64_t vocabulary);
  const double softcap;
};

}  // namespace sextant
