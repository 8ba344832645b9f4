#pragma once
#include "sextant/ops/gate.h"

namespace sextant {

/// gpt-oss's gate: (min(max(up, -limit), limit) + 1) g sigmoid(1.702 g) with g = min(gate, limit). Inputs: gate, up of
/// one shape.
class ClampedSwiglu final : public Gate {
 public:
  explicit ClampedSwiglu(double most, RowWeights row_weights = RowWeights::kNone)
      : Gate(10, 20, row_weights), limit(most) {}
  std::string_view kind() const override { return "clamped_swiglu"; }
  const double limit;
};

}  // namespace sextant
