#include <algorithm>
#include <limits>
#include <map>

#include "sextant/sim/virtual_run.h"

namespace sextant {
namespace {

bool is_unit(const Event& e) { return holds_others(e.kind) && e.microbatch < 0; }
std::size_t coordinate(const Program& program, const Event& e) {
  return static_cast<std::size_t>(e.rank / program.mesh.num_ranks());
}

}  // namespace

Prices measured_prices(const Program& program, const Timeline& measured) {
  struct Mean {
    double sum = 0;
    int count = 0;
    Seconds value() const { return {count == 0 ? 0 : sum / count}; }
  };
  std::vector<std::map<std::pair<std::string, EventKind>, Mean>> times(program.by_pp.size());
  for (const Event& e : measured.events) {
    if (!is_unit(e)) continue;
    Mean& mean = times.at(coordinate(program, e))[{e.what, e.kind}];
    mean.sum += (e.end - e.start).value, ++mean.count;
  }
  Prices prices;
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    auto& list = prices.units.emplace_back();
    for (const Unit& unit : program.by_pp[pp].units) {
      const auto mean = [&](EventKind kind) { return times[pp][{unit.name, kind}]; };
      const Seconds i = mean(EventKind::kInputGradient).value(), w = mean(EventKind::kWeightGradient).value();
      const Mean b = mean(EventKind::kBackward);
      list.push_back({mean(EventKind::kForward).value(), i, w, b.count > 0 ? b.value() : i + w});
    }
  }
  return prices;
}

double measured_bubble(const Timeline& measured) {
  double start = std::numeric_limits<double>::max(), end = 0;
  std::map<int, double> work;  // by rank
  for (const Event& e : measured.events) {
    if (!is_unit(e)) continue;
    start = std::min(start, e.start.value), end = std::max(end, e.end.value);
    work[e.rank] += (e.end - e.start).value;
  }
  double most = 0;
  for (const auto& [rank, sum] : work) most = std::max(most, sum);
  return end > start ? 1 - most / (end - start) : 0;
}

}  // namespace sextant
