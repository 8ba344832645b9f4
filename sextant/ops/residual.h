#pragma once
#include "sextant/ops/dropout.h"

namespace sextant {

/// r + dropout(y + bias): carries the bias of a row-parallel product, added once, after its conversion; two biases
/// where y is the sum of two products (GPT-NeoX). Inputs: y, r, then `biases` times bias[D], then tokens[B S] (i64) if
/// anything is dropped.
class Residual final : public Op {
 public:
  Residual(int num_biases, DropoutRule dropout) : biases(num_biases), rule(std::move(dropout)) {}
  std::string_view kind() const override { return "residual"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override { return with_mask(rule, in[0]); }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override {
    if (rule.probability == 0) return {};
    return rule.stored ? Needs{{}, {1}} : Needs{{2 + biases}, {}};
  }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const int biases;
  const DropoutRule rule;
};

}  // namespace sextant
