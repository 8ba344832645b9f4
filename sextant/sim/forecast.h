#pragma once
// What a step of a plan takes on a cluster.
#include <map>

#include "sextant/plan/plan.h"
#include "sextant/program/memory.h"
#include "sextant/sim/virtual_run.h"

namespace sextant {

struct Forecast {
  Breakdown time;
  Bytes peak;           ///< of the coordinate that needs most: the memory walk's, and what the device reserves
  int worst = 0;        ///< that coordinate
  LiveBytes at_peak{};  ///< its tensors at that moment
  std::string peak_where;
  double model_flops = 0;  ///< of a step, on all ranks
  double mfu = 0;          ///< of the devices' peak in the plan's precision, attention in full
  Seconds step() const { return time.makespan; }
};

/// AdamW's bytes for each parameter: moments, and a master copy of narrow parameters.
Bytes adamw_state(DType parameters);
/// What the loader holds of a step, for a token: ids, labels, positions, and the first and last key it sees (i32).
inline constexpr std::int64_t kDataBytesPerToken = 20;

/// Simulates one step of a program on a cluster.
Forecast forecast(const Program& program, const Cluster& cluster, const Prices& prices);
Forecast forecast(const Program& program, const Cluster& cluster);
/// Of a plan. Throws InvalidInput if it cannot be lowered.
Forecast forecast(const ModelConfig& model, const Workload& workload, const Plan& plan, const Cluster& cluster);
/// Time of coordinate `pp` in a step by what it does, in the words of a measured Timeline ("linear F", "all_reduce",
/// "WAIT RECV", "OPT_STEP").
std::map<std::string, Seconds> time_by_what(const Program& program, const Cluster& cluster, const VirtualRun& run,
                                            int pp);
/// Peak memory alone, as in Forecast.
void forecast_memory(const Program& program, const Cluster& cluster, Forecast& out);

}  // namespace sextant
