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
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return rule.probability > 0 ? Needs{{2 + biases}, {}} : Needs{}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const int biases;
  const DropoutRule rule;
};

}  // namespace sextant
