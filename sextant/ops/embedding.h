#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// y[B S D] = scale w[V D] at ids[B S] (i32). Inputs: ids, w. Learned positions are an embedding with position ids.
class Embedding final : public Op {
 public:
  explicit Embedding(double factor = 1) : scale(factor) {}
  std::string_view kind() const override { return "embedding"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{0}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const double scale;
};

}  // namespace sextant
