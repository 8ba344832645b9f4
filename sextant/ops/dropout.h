#pragma once
#include "sextant/base/random.h"
#include "sextant/ops/op.h"

namespace sextant {

/// Which elements dropout keeps: a pure function of (seed, op name, token of the run, channel), so of no layout.
struct DropoutRule {
  double probability = 0;
  std::string name;  ///< tells the dropouts of a model apart
  /// A byte an element is kept for the backward pass, as elsewhere; priced only. Ours draws the mask again.
  bool stored = false;

  RandomStream stream(std::uint64_t seed) const { return {seed, Purpose::kDropout, hash_name(name)}; }
  /// An element is dropped if its 32 bits are below this.
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(probability * 0x1p32); }
  double scale() const { return 1 / (1 - probability); }
};

/// A result like `x`, and the mask if it is stored.
std::vector<TensorSpec> with_mask(const DropoutRule& rule, const TensorSpec& x);

/// x with dropped elements zero and the others divided by 1 - p. Inputs: x[B S D], tokens[B S] (i64).
class Dropout final : public Op {
 public:
  explicit Dropout(DropoutRule dropout) : rule(std::move(dropout)) {}
  std::string_view kind() const override { return "dropout"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override { return with_mask(rule, in[0]); }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return rule.stored ? Needs{{}, {1}} : Needs{{1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const DropoutRule rule;
};

/// The row of an op that drops elements: like any element-wise one, but channels stay whole, since masks are drawn by
/// token and channel.
std::variant<Row, Refusal> dropout_row(const DropoutRule& rule, std::span<const TensorSpec> in, Axis axis);

}  // namespace sextant
