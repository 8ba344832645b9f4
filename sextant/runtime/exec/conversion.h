#pragma once
#include "sextant/ops/convert.h"
#include "sextant/runtime/comm/communicator.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {

/// Takes a tensor from one placement over an axis to another: packs, runs the one collective, unpacks. `scratch` is as
/// large as the op says.
void run_conversion(const Convert& op, const View& in, const View& out, Communicator& axis, void* scratch,
                    const Site& site);

}  // namespace sextant
