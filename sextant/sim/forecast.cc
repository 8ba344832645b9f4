#include "sextant/sim/forecast.h"

namespace sextant {

Bytes adamw_state(DType parameters) {
  const DType value = statistic_of(parameters);
  return {(parameters == value ? 2 : 3) * size_of(value)};
}

void forecast_memory(const Program& program, const Cluster& cluster, Forecast& out) {
  for (int pp = 0; pp < static_cast<int>(program.by_pp.size()); ++pp) {
    const MemoryPlan memory = plan_memory(program, pp, adamw_state(program.dtype), {}, 1);
    if (memory.peak + cluster.device.reserve <= out.peak) continue;
    out.peak = memory.peak + cluster.device.reserve, out.worst = pp;
    out.at_peak = memory.at_peak, out.peak_where = memory.peak_where;
  }
}

Forecast forecast(const Program& program, const Cluster& cluster, const Prices& prices) {
  Forecast out;
  out.time = break_down(program, prices, run_virtually(program, prices));
  forecast_memory(program, cluster, out);
  out.model_flops = model_flops(program);
  out.mfu = out.model_flops / (out.step().value * program.num_ranks() * cluster.device.peak(program.dtype));
  return out;
}

Forecast forecast(const Program& program, const Cluster& cluster) {
  return forecast(program, cluster, cluster_prices(program, cluster));
}

Forecast forecast(const ModelConfig& model, const Workload& workload, const Plan& plan, const Cluster& cluster) {
  return forecast(build_program(build_model(model, sizes_of(plan, workload)), plan), cluster);
}

}  // namespace sextant
