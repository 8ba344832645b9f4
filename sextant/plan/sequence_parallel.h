#pragma once
#include "sextant/plan/rules.h"

namespace sextant {

/// Between the products, where no dim of tensor parallelism is at hand, tensors are split along S over tp. Comes after
/// the tensor-parallel rules.
std::vector<DimRule> sequence_parallel_rules();

}  // namespace sextant
