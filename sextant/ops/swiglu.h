#pragma once
#include "sextant/ops/gate.h"

namespace sextant {

/// silu(gate) * up (Shazeer 2020). Inputs: gate, up of one shape.
class Swiglu final : public Gate {
 public:
  Swiglu() : Gate(6, 14) {}
  std::string_view kind() const override { return "swiglu"; }
};

}  // namespace sextant
