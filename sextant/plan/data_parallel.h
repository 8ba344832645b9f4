#pragma once
#include "sextant/plan/rules.h"

namespace sextant {

/// Each rank takes its part of the batch: B over dp_replicate, then dp_shard. Weights are copied, so their gradients
/// are partial over both axes (docs/strategies/data_parallel.md).
std::vector<DimRule> data_parallel_rules();

}  // namespace sextant
