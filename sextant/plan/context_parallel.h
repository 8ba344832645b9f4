#pragma once
#include "sextant/plan/rules.h"

namespace sextant {

/// The sequence over cp; how attention sees the rest of it is Rules::cp_kind.
std::vector<DimRule> context_parallel_rules();

}  // namespace sextant
