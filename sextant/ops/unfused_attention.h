#pragma once
// Attention as three products and passes over memory, each of which keeps its scores: how it was run before flash
// attention. Priced, so that published runs of that kind can be; training runs `attention`.
#include "sextant/ops/op.h"

namespace sextant {

/// q k^T of each head. Inputs: q[B S H K], k[B S G K]. Output: [B H S C], C the keys.
class Scores final : public Op {
 public:
  std::string_view kind() const override { return "scores"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{0, 1}, {}}; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
};

/// Masked softmax over the last dim.
class Softmax final : public Op {
 public:
  std::string_view kind() const override { return "softmax"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{}, {0}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
};

/// Attention weights times values. Inputs: p[B H S C], v[B S G K]. Output: [B S H K].
class Context final : public Op {
 public:
  std::string_view kind() const override { return "context"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{0, 1}, {}}; }
  bool is_product() const override { return true; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
