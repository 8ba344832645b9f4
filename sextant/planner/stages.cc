#include <algorithm>
#include <numeric>

#include "sextant/plan/pipeline_parallel.h"
#include "sextant/planner/planner.h"

namespace sextant {

std::vector<int> least_stages(const std::vector<double>& times, int num_stages) {
  const auto num_units = static_cast<int>(times.size());
  // How many runs of at most `limit` the units take, greedily; their sizes in `sizes`.
  const auto cut = [&](double limit, std::vector<int>& sizes) {
    sizes.assign(1, 0);
    double sum = 0;
    for (int u = 0; u < num_units; ++u) {
      const double time = times[static_cast<std::size_t>(u)];
      // What is left must still fill the stages that are left.
      const int left = num_units - u, stages_left = num_stages - static_cast<int>(sizes.size());
      if (sizes.back() > 0 && (sum + time > limit || left <= stages_left)) sizes.push_back(0), sum = 0;
      ++sizes.back(), sum += time;
    }
    return static_cast<int>(sizes.size());
  };
  std::vector<int> sizes;
  double least = *std::max_element(times.begin(), times.end()), most = std::accumulate(times.begin(), times.end(), 0.0);
  for (int round = 0; round < 60; ++round) {
    const double middle = (least + most) / 2;
    (cut(middle, sizes) <= num_stages ? most : least) = middle;
  }
  cut(most * (1 + 1e-12), sizes);
  return sizes;
}

std::optional<Ranked> with_uneven_stages(const Request& r, const Ranked& best) {
  const int num_stages = num_stages_of(best.plan), num_units = static_cast<int>(r.model.layers) + 2;
  if (num_stages == 1) return std::nullopt;
  const Program program = build_program(build_model(r.model, sizes_of(best.plan, r.workload)), best.plan);
  const Prices prices = cluster_prices(program, r.cluster);
  // Times of the units in model order.
  std::vector<std::pair<int, double>> by_place;
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const RankProgram& rank = program.by_pp[pp];
    for (std::size_t u = 0; u < rank.units.size(); ++u) {
      const auto& time = prices.units[pp][u];
      by_place.emplace_back(rank.stage(static_cast<int>(u)).index * num_units + static_cast<int>(u),
                            (time[0] + time[1] + time[2]).value);
    }
  }
  std::sort(by_place.begin(), by_place.end());
  std::vector<double> times;
  for (const auto& [place, time] : by_place) times.push_back(time);
  if (static_cast<int>(times.size()) != num_units) return std::nullopt;  // mirrored stages hold units twice

  std::vector<std::vector<int>> tried = {least_stages(times, num_stages)};
  if (r.model.layers % num_stages == 0) {  // layers alike, embedding and head on top
    tried.emplace_back(static_cast<std::size_t>(num_stages), static_cast<int>(r.model.layers / num_stages));
    ++tried.back().front(), ++tried.back().back();
  }
  // A lighter last stage, which has the head: one of its layers goes to the first chunk of another coordinate.
  const std::vector<int> balanced = balanced_stages(num_units, num_stages);
  constexpr int kMostTried = 16;
  for (int k = 0; k < std::min({best.plan.pp, kMostTried, num_stages - 1}) && balanced.back() > 1; ++k) {
    tried.push_back(balanced);
    --tried.back().back(), ++tried.back()[static_cast<std::size_t>(k)];
  }
  std::optional<Ranked> out;
  for (const std::vector<int>& stages : tried) {
    Plan plan = best.plan;
    plan.stages = stages;
    if (!violations(plan, r.model, r.workload).empty()) continue;
    Ranked ranked = simulate_plan(r, plan);
    // What is less than a thousandth is not worth another layout.
    const Seconds beaten = out ? out->forecast.step() : Seconds{0.999 * best.forecast.step().value};
    if (ranked.fits && ranked.forecast.step() < beaten) out = std::move(ranked);
  }
  return out;
}

}  // namespace sextant
