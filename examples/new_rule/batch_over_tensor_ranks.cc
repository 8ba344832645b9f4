#include "batch_over_tensor_ranks.h"

namespace sextant {

std::vector<DimRule> batch_over_tensor_ranks() { return {{'B', Axis::kTp}}; }

}  // namespace sextant
