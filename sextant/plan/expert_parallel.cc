#include "sextant/plan/expert_parallel.h"

#include "sextant/base/str.h"
#include "sextant/plan/plan.h"
#include "sextant/plan/violations.h"

namespace sextant {

std::vector<DimRule> expert_parallel_rules() {
  return {{'E', Axis::kEp}, {'F', Axis::kEtp}, {'X', Axis::kDpReplicate}, {'X', Axis::kEdp}, {'X', Axis::kEtp}};
}

std::vector<std::string> expert_violations(const Plan& plan, const ModelConfig& model, std::int64_t sequence) {
  const MixtureConfig& m = model.mixture;
  if (m.experts == 0) {
    if (plan.ep * plan.etp == 1) return {};
    return {str("ep = ", plan.ep, ", etp = ", plan.etp, ": the model has no experts; leave both out")};
  }
  Violations out;
  out.must_divide("ep", plan.ep, "the experts", m.experts);
  out.must_divide("etp", plan.etp, "the width of an expert", m.expert_width);
  const std::int64_t ranks = std::int64_t{plan.dp_shard} * plan.cp * plan.tp;
  out.must_divide("ep x etp", std::int64_t{plan.ep} * plan.etp, "dp_shard x cp x tp", ranks);
  if (m.shared_width > 0) out.must_divide("tp", plan.tp, "the width of the shared experts", m.shared_width);
  if (plan.tp > 1 && !plan.sequence_parallel)
    out.must_divide("cp x tp (each token is routed by one rank)", std::int64_t{plan.cp} * plan.tp, "the sequence",
                    sequence);
  return out.take();
}

}  // namespace sextant
