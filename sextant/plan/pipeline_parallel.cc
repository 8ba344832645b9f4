#include "sextant/plan/pipeline_parallel.h"

#include "sextant/base/errors.h"
#include "sextant/plan/plan.h"

namespace sextant {

ScheduleShape schedule_shape(const Plan& plan) {
  return {plan.pp, static_cast<int>(plan.num_microbatches), plan.virtual_stages, plan.group, plan.most_live};
}

Schedule schedule_of(const Plan& plan) { return schedule_of(plan.schedule, schedule_shape(plan)); }

std::vector<std::string> schedule_violations(const Plan& plan) {
  try {
    if (!is_file(plan.schedule)) return violations(find_schedule(plan.schedule), schedule_shape(plan));
    schedule_of(plan);
    return {};
  } catch (const InvalidInput& e) {
    return {e.what()};
  }
}

int num_stages_of(const Plan& plan) {
  if (is_file(plan.schedule)) return schedule_of(plan).num_stages;
  return plan.pp * complete(find_schedule(plan.schedule), schedule_shape(plan)).virtual_stages;
}

std::vector<int> balanced_stages(int num_units, int num_stages) {
  std::vector<int> sizes(static_cast<std::size_t>(num_stages), num_units / num_stages);
  int left = num_units % num_stages;
  // From both ends inwards: first, last, second ...
  for (int i = 0; left > 0; ++i, --left) ++sizes[static_cast<std::size_t>(i % 2 == 0 ? i / 2 : num_stages - 1 - i / 2)];
  return sizes;
}

std::vector<int> stage_sizes(const Plan& plan, int num_units, int num_stages) {
  return plan.stages.empty() ? balanced_stages(num_units, num_stages) : plan.stages;
}

}  // namespace sextant
