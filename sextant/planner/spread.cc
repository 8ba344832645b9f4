#include "sextant/planner/spread.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace sextant {
namespace {

constexpr double kRate = 0.1, kLinks = 0.1, kRows = 0.1;

void slow_links(Cluster& cluster, double factor) {
  for (Level& level : cluster.levels) level.bandwidth /= factor, level.pair /= factor, level.link /= factor;
}

}  // namespace

Spread spread_of(const Request& request, const Plan& plan) {
  Spread out;
  out.step = simulate_plan(request, plan).forecast.step();
  const auto attempt = [&](const char* what, const std::function<void(Request&)>& change) {
    Request other = request;
    change(other);
    out.changed.push_back({what, simulate_plan(other, plan).forecast.step()});
  };
  attempt("launches cost nothing (graphs)", [](Request& r) { r.cluster.device.launch = {}; });
  attempt("launches take twice as long", [](Request& r) { r.cluster.device.launch.value *= 2; });
  if (request.cluster.device.host.value == 0)
    attempt("a host launches every kernel (eager)", [](Request& r) { r.cluster.device.host = kEagerHost; });
  attempt("devices sustain 10 % more", [](Request& r) { r.cluster.device.sustained *= 1 + kRate; });
  attempt("devices sustain 10 % less", [](Request& r) { r.cluster.device.sustained *= 1 - kRate; });
  if (plan.num_ranks() > 1)
    attempt("links reach 10 % less", [](Request& r) { slow_links(r.cluster, 1 / (1 - kLinks)); });
  if (request.model.mixture.experts > 0 && plan.ep * plan.etp > 1) {
    attempt("the fullest rank has 10 % more rows of experts",
            [](Request& r) { r.model.mixture.imbalance = r.model.mixture.room() * (1 + kRows); });
    const Program program = build_program(build_model(request.model, sizes_of(plan, request.workload)), plan);
    Prices prices = cluster_prices(program, request.cluster);
    hide_experts(prices);
    out.changed.push_back({"what goes over ep is hidden", run_virtually(program, prices).makespan});
  }
  std::stable_sort(out.changed.begin(), out.changed.end(), [&](const Assumption& a, const Assumption& b) {
    return std::abs((a.step - out.step).value) > std::abs((b.step - out.step).value);
  });
  out.least = out.greatest = out.step;
  for (const Assumption& a : out.changed) (a.step < out.step ? out.least : out.greatest) += a.step - out.step;
  return out;
}

}  // namespace sextant
