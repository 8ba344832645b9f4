#include "sextant/sim/forecast.h"

#include "sextant/base/errors.h"

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

std::map<std::string, Seconds> time_by_what(const Program& program, const Cluster& cluster, const VirtualRun& run,
                                            int pp) {
  const RankProgram& list = program.by_pp[static_cast<std::size_t>(pp)];
  const Network network(cluster);
  // Of a unit's pass, once: kernels, and collectives as far as the rank waits for them.
  const auto of_pass = [&](const Unit& unit, const std::vector<Step>& steps, const PassPrice& price) {
    std::map<std::string, Seconds> out;
    for (const Step& step : steps)
      out[str(step.op->kind(), " ", name_of(step.pass))] +=
          step_time(unit, step, program.mesh, program.gradient_dtype, cluster.device);
    double moved = 0;
    const std::vector<NamedTraffic> all = traffic(unit, steps, program.mesh);
    for (const NamedTraffic& t : all) moved += traffic_time(t.traffic, program.mesh, network).value;
    const double waited = (price.tp + price.cp + price.ep).value;
    for (const NamedTraffic& t : all)
      if (moved > 0)
        out[std::string(name_of(t.traffic.kind))].value +=
            traffic_time(t.traffic, program.mesh, network).value * waited / moved;
    return out;
  };
  std::vector<std::array<std::map<std::string, Seconds>, 4>> units;
  for (const Unit& unit : list.units) {
    const UnitPrice price = price_unit(unit, program.mesh, program.gradient_dtype, network);
    units.push_back({of_pass(unit, unit.f, price[0]), of_pass(unit, unit.i, price[1]), of_pass(unit, unit.w, price[2]),
                     of_pass(unit, unit.b(), price[3])});
  }
  std::map<std::string, Seconds> out;
  for (std::size_t n = 0; n < list.code.size(); ++n) {
    const Instruction& i = list.code[n];
    const Seconds spent =
        run.by_pp[static_cast<std::size_t>(pp)][n].end - run.by_pp[static_cast<std::size_t>(pp)][n].start;
    if (i.code == Code::kRun) {
      for (const auto& [what, time] : units[static_cast<std::size_t>(i.unit)][price_of(i)])
        if (time.value > 0) out[what] += time;
    } else if (spent.value > 0) {
      const bool waits = i.code == Code::kWait;
      out[waits ? str("WAIT ", name_of(list.code[static_cast<std::size_t>(i.waits_for)].code))
                : std::string(name_of(i.code))] += spent;
    }
  }
  return out;
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
