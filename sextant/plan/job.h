#pragma once
#include "sextant/plan/plan.h"

namespace sextant {

/// What is run, by its sizes and degrees: two summaries are of one job if these are equal.
Value job_of(const ModelConfig& model, const Workload& workload, const Plan& plan);

}  // namespace sextant
