#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// Llama 3's stretching of low frequencies; factor 1 is none.
struct RopeScaling {
  double factor = 1, low_frequency = 1, high_frequency = 4, original_length = 8192;
};

/// Rotary positions (Su et al. 2021, eq. 34) in the half-split form of the Hugging Face files: element i turns with
/// element i + K/2. Inputs: x[B S H K], positions[B S] (i32). Output: like x.
class Rope final : public Op {
 public:
  Rope(double base, RopeScaling stretch) : theta(base), scaling(stretch) {}
  std::string_view kind() const override { return "rope"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  /// Angle per position of each of the K/2 pairs, radians.
  std::vector<double> frequencies(std::int64_t head_width) const;
  const double theta;
  const RopeScaling scaling;
};

}  // namespace sextant
