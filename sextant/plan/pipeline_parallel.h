#pragma once
#include <vector>

#include "sextant/schedule/schedule.h"

namespace sextant {

struct Plan;

/// What the plan asks of its schedule.
ScheduleShape schedule_shape(const Plan& plan);
/// The plan's schedule. Throws InvalidInput if the shape does not go with it.
Schedule schedule_of(const Plan& plan);
/// Why it does not, each with the nearest valid value; empty if it does.
std::vector<std::string> schedule_violations(const Plan& plan);
/// Stages of a plan whose schedule is valid.
int num_stages_of(const Plan& plan);
/// Units of each stage, if the plan does not say: as equal as can be, the first and the last stage being the first to
/// get one more. Embedding and head count as a unit each, so 32 layers on 4 stages are 8 each.
std::vector<int> balanced_stages(int num_units, int num_stages);
/// Units of each stage, as the plan says or balanced.
std::vector<int> stage_sizes(const Plan& plan, int num_units, int num_stages);

}  // namespace sextant
