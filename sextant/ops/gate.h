#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// Whether rows come with weights, as those of experts do: the router's, which then need no pass of their own.
enum class RowWeights : std::uint8_t { kNone, kGiven };

/// What gated units share: y = f(gate) * g(up), element by element, times the row's weight if one is given. Inputs:
/// gate, up of one shape, then weights with their first dims.
class Gate : public Op {
 public:
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype, .grid = in[0].grid}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return weights == RowWeights::kGiven ? Needs{{0, 1, 2}, {}} : Needs{{0, 1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const RowWeights weights;

 protected:
  /// FLOPs of an element, forward and backward.
  Gate(double forward, double backward, RowWeights row_weights)
      : weights(row_weights), forward_(forward), backward_(backward) {}

 private:
  double forward_, backward_;
};

}  // namespace sextant
