#pragma once
#include "sextant/ops/gate.h"

namespace sextant {

/// gelu(gate) * up, GELU by tanh (Shazeer 2020, in Gemma's form). Inputs: gate, up of one shape.
class Geglu final : public Gate {
 public:
  explicit Geglu(RowWeights row_weights = RowWeights::kNone) : Gate(11, 20, row_weights) {}
  std::string_view kind() const override { return "geglu"; }
};

}  // namespace sextant
