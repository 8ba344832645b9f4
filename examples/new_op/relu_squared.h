#pragma once
#include "sextant/ops/op.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {

/// max(x, 0)^2 (So et al. 2021, "Primer"). Everything that Sextant needs to know about an op: shapes, placements, what
/// the backward pass reads, its price.
class ReluSquared final : public Op {
 public:
  std::string_view kind() const override { return "relu_squared"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{0}, {}}; }
  Work work(Pass, std::span<const TensorSpec> local) const override;
};

/// And its kernels.
void add_relu_squared_kernels(KernelTable& table);

}  // namespace sextant
