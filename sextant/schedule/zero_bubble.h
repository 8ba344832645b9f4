#pragma once
#include "sextant/schedule/schedule.h"

namespace sextant {

/// 1F1B with the backward pass in two: weight gradients fill what would be bubbles. `warmup` forward passes come first,
/// and up to `pending` weight gradients wait while there are forward passes to run (Qi et al. 2023).
std::vector<Action> zero_bubble_actions(int rank, int num_microbatches, int warmup, int pending);

}  // namespace sextant
