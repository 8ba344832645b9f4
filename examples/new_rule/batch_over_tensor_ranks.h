#pragma once
#include "sextant/plan/rules.h"

namespace sextant {

/// A placement rule that no strategy of ours has: the tp axis splits the batch instead of heads and widths, as if it
/// were one more data-parallel axis.
std::vector<DimRule> batch_over_tensor_ranks();

}  // namespace sextant
