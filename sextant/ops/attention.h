#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// How attention runs: flash, or as products whose scores are kept, for pricing (ops/unfused_attention.h).
enum class AttentionCore : std::uint8_t { kFlash, kUnfused };

/// What attention does to a score beyond the product.
struct AttentionRule {
  double scale = 0;         ///< of q k^T; 0: 1 / sqrt(K)
  double softcap = 0;       ///< c > 0: c tanh(score / c) (Gemma 2)
  std::int64_t window = 0;  ///< w > 0: a query sees its last w keys at most, itself included (Mistral)
  bool alibi = false;       ///< adds -slope (query - key), slope 2^(-8 (h + 1) / H) (Press et al. 2022)
  bool sinks = false;       ///< a learned score per head takes part in the sum and yields nothing (gpt-oss)
};
/// Slopes of ALiBi for all heads; for H no power of two as in the paper's code.
std::vector<double> alibi_slopes(std::int64_t heads);
/// FLOPs of attention products: `widths`, the head widths of scores and values together, per pair of query and key.
Work attention_work(double queries_times_widths, double keys, std::int64_t window);

/// softmax(q k^T / sqrt(K)) v per head, flash-style: scores are never stored (Dao et al. 2022). Inputs: q[B S H K],
/// k[B S G K], v[B S G K] (H a multiple of G: MHA, GQA, MQA), first[B S] and last[B S] (i32): the keys that a query
/// sees, which covers causal masks and packed documents; then sinks[H] if the rule has them. Outputs: o[B S H K] and
/// the log-sum-exp [B S H].
class Attention final : public Op {
 public:
  explicit Attention(AttentionRule attention_rule = {}) : rule(attention_rule) {}
  static constexpr std::int64_t kStripe = 64;  ///< queries taken at once
  std::string_view kind() const override { return "attention"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind cp_kind) const override;
  Needs needs(Pass) const override { return {{0, 1, 2, 3, 4}, {0, 1}}; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
  Bytes scratch(Pass pass, std::span<const TensorSpec> local, int threads) const override;
  const AttentionRule rule;
};

}  // namespace sextant
