#pragma once
#include "sextant/model/model.h"
#include "sextant/plan/rules.h"

namespace sextant {

struct Plan;

/// Experts over ep, each expert's ffn over etp, its rows over all else: the ranks of dp_shard x cp x tp read as
/// edp x ep x etp.
std::vector<DimRule> expert_parallel_rules();
/// What is wrong with the plan's ep and etp, and with tp and cp for routed tokens; each with the nearest valid values.
std::vector<std::string> expert_violations(const Plan& plan, const ModelConfig& model, std::int64_t sequence);

}  // namespace sextant
