#pragma once
#include "sextant/ops/gate.h"

namespace sextant {

/// silu(gate) * up (Shazeer 2020). Inputs: gate, up of one shape.
class Swiglu final : public Gate {
 public:
  explicit Swiglu(RowWeights row_weights = RowWeights::kNone) : Gate(6, 14, row_weights) {}
  std::string_view kind() const override { return "swiglu"; }
};

}  // namespace sextant
