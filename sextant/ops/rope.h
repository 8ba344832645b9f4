#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// How frequencies are stretched for longer sequences than the first training had. Llama 3's: the low ones; factor 1 is
/// none. YaRN (Peng et al. 2023) is known to the families that are lowered only; no kernel turns by it.
struct RopeScaling {
  enum class Kind : std::uint8_t { kLlama3, kYarn };
  double factor = 1, low_frequency = 1, high_frequency = 4, original_length = 8192;
  Kind kind = Kind::kLlama3;
};

/// Rotary positions (Su et al. 2021, eq. 34) in the half-split form of the Hugging Face files: element i turns with
/// element i + R/2, of the first R of K (GPT-NeoX), or of all. Inputs: x[B S H K], positions[B S] (i32). Output: like
/// x.
class Rope final : public Op {
 public:
  Rope(double base, RopeScaling stretch, std::int64_t width_rotated = 0)
      : theta(base), scaling(stretch), rotated(width_rotated) {}
  std::string_view kind() const override { return "rope"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override {
    return {{.dims = in[0].dims, .dtype = in[0].dtype}};
  }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override { return {{1}, {}}; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  /// Angle per position of each of the R/2 pairs, radians.
  std::vector<double> frequencies(std::int64_t head_width) const;
  const double theta;
  const RopeScaling scaling;
  const std::int64_t rotated;  ///< R; 0: K
};

}  // namespace sextant
