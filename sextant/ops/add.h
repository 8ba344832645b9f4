#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// a + b of one shape; a sum of two partial sums stays one.
class Add final : public Op {
 public:
  std::string_view kind() const override { return "add"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
