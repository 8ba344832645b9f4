#pragma once
// Whether the processes of a job read the same things.
#include "sextant/runtime/train/trainer.h"

namespace sextant {

/// Compares between all ranks what each has read: settings, data, initial weights. Throws InvalidInput on every rank,
/// with the same text, if a rank has read something else. Data beyond 1 GiB is compared by 1 GiB of it, evenly spread.
void agree(Communicator& world, const RunConfig& config, const Prepared& prepared);

}  // namespace sextant
