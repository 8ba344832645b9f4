#pragma once
#include "sextant/ops/op.h"

namespace sextant {

enum class GeluKind : std::uint8_t { kTanh, kErf };

/// GELU (Hendrycks and Gimpel 2016), exact or by tanh (GPT-2's "gelu_new"). Input: x of any shape.
class Gelu final : public Op {
 public:
  explicit Gelu(GeluKind form) : gelu(form) {}
  std::string_view kind() const override { return "gelu"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {{0}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const GeluKind gelu;
};

}  // namespace sextant
