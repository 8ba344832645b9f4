#include "sextant/plan/context_parallel.h"

namespace sextant {

std::vector<DimRule> context_parallel_rules() { return {{'S', Axis::kCp}}; }

}  // namespace sextant
