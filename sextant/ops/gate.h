#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// What gated units share: y = f(gate) * g(up), element by element. Inputs: gate, up of one shape.
class Gate : public Op {
 public:
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{0, 1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;

 protected:
  /// FLOPs of an element, forward and backward.
  Gate(double forward, double backward) : forward_(forward), backward_(backward) {}

 private:
  double forward_, backward_;
};

}  // namespace sextant
