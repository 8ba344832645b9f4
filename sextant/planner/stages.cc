#include <algorithm>
#include <limits>
#include <numeric>

#include "sextant/plan/pipeline_parallel.h"
#include "sextant/planner/planner.h"

namespace sextant {

std::vector<int> least_stages(const std::vector<double>& times, int num_stages, const std::vector<double>& slow) {
  const std::size_t units = times.size(), stages = static_cast<std::size_t>(num_stages);
  std::vector<double> before(units + 1, 0);  // of the units in front of each
  for (std::size_t u = 0; u < units; ++u) before[u + 1] = before[u] + times[u];
  // longest[u]: of the stages so far over the first u units, at best; first[s][u]: where stage s then starts.
  std::vector<double> longest(units + 1, std::numeric_limits<double>::infinity());
  longest[0] = 0;
  std::vector<std::vector<std::size_t>> first(stages, std::vector<std::size_t>(units + 1, 0));
  for (std::size_t s = 0; s < stages; ++s) {
    const double factor = s < slow.size() ? slow[s] : 1;
    std::vector<double> next(units + 1, std::numeric_limits<double>::infinity());
    for (std::size_t end = s + 1; end <= units; ++end)
      for (std::size_t start = end; start-- > s;) {
        const double own = factor * (before[end] - before[start]);
        if (own >= next[end]) break;  // and longer still from further in front
        if (const double all = std::max(longest[start], own); all < next[end]) next[end] = all, first[s][end] = start;
      }
    longest = std::move(next);
  }
  std::vector<int> sizes(stages);
  for (std::size_t s = stages, end = units; s-- > 0; end = first[s][end])
    sizes[s] = static_cast<int>(end - first[s][end]);
  return sizes;
}

std::optional<Ranked> with_uneven_stages(const Request& r, const Ranked& best) {
  const int num_stages = num_stages_of(best.plan), num_units = static_cast<int>(r.model.layers) + 2;
  if (num_stages == 1) return std::nullopt;
  const Program program = build_program(build_model(r.model, sizes_of(best.plan, r.workload)), best.plan);
  const Prices prices = cluster_prices(program, r.cluster);
  // Times of the units in model order.
  std::vector<std::pair<int, double>> by_place;
  std::vector<std::size_t> holder(static_cast<std::size_t>(num_stages));
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const RankProgram& rank = program.by_pp[pp];
    for (const Stage& stage : rank.stages) holder[static_cast<std::size_t>(stage.index)] = pp;
    for (std::size_t u = 0; u < rank.units.size(); ++u) {
      const auto& time = prices.units[pp][u];
      by_place.emplace_back(rank.stage(static_cast<int>(u)).index * num_units + static_cast<int>(u),
                            (time[0] + std::max(time[1] + time[2], time[3])).value);
    }
  }
  std::sort(by_place.begin(), by_place.end());
  std::vector<double> times;
  for (const auto& [place, time] : by_place) times.push_back(time);
  if (static_cast<int>(times.size()) != num_units) return std::nullopt;  // mirrored stages hold units twice

  std::vector<double> slow;  // of stages; their times are those of even devices
  if (!r.slow.empty())
    for (int stage = 0; stage < num_stages; ++stage) slow.push_back(r.slow[holder[static_cast<std::size_t>(stage)]]);
  std::vector<std::vector<int>> tried = {least_stages(times, num_stages, slow)};
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
