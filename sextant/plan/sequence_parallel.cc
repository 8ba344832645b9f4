#include "sextant/plan/sequence_parallel.h"

namespace sextant {

std::vector<DimRule> sequence_parallel_rules() { return {{'S', Axis::kTp}}; }

}  // namespace sextant
