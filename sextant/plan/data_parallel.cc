#include "sextant/plan/data_parallel.h"

namespace sextant {

std::vector<DimRule> data_parallel_rules() { return {{'B', Axis::kDpReplicate}, {'B', Axis::kDpShard}}; }

}  // namespace sextant
