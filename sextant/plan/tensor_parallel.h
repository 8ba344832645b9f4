#pragma once
#include "sextant/plan/rules.h"

namespace sextant {

/// Heads, kv heads, ffn and vocabulary over tp: column and row products, vocab-parallel embedding and head follow.
std::vector<DimRule> tensor_parallel_rules();

}  // namespace sextant
