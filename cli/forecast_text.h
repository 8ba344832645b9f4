#pragma once
// How plans and forecasts are said.
#include <ostream>
#include <string>

#include "sextant/base/value.h"
#include "sextant/sim/forecast.h"

namespace sextant::cli {

/// "dp 128 tp 8 pp 16 interleaved V 8, zero 1, 16 x 1 sequences, recompute full".
std::string words_of(const Plan& plan);
/// "1, 2, 3".
std::string numbers(const std::vector<int>& list);
/// Stages as Megatron-Core writes a pipeline layout: E embedding, t a layer, L head and loss, | between stages.
std::string layout_of(const std::vector<int>& stages);
/// The plan as a plan file's sections. `model`: its name, and what was chosen for it.
std::string plan_file_text(const std::string& name, const ModelConfig& model, const std::string& cluster, int devices,
                           const Workload& workload, const Plan& plan);
void print_forecast(std::ostream& out, const Forecast& forecast, const Workload& workload, const Plan& plan,
                    const Cluster& cluster);
/// The plan's degrees and the forecast's numbers.
Value to_value(const Forecast& forecast, const Workload& workload, const Plan& plan);
std::string percent(double fraction);

}  // namespace sextant::cli
