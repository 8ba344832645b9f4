#include <algorithm>
#include <map>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"
#include "sextant/program/memory.h"
#include "sextant/sim/virtual_run.h"

namespace sextant {
namespace {

// Units that differ in their names only are priced once.
class UnitPrices {
 public:
  UnitPrices(const Program& program, const Network& network) : program_(program), network_(network) {}

  UnitPrice of(const Unit& unit) {
    if (unit.like < 0) return price_unit(unit, program_.mesh, program_.gradient_dtype, network_);
    const auto found = known_.find(unit.like);
    if (found != known_.end()) return found->second;
    return known_[unit.like] = price_unit(unit, program_.mesh, program_.gradient_dtype, network_);
  }

 private:
  const Program& program_;
  const Network& network_;
  std::map<int, UnitPrice> known_;
};

}  // namespace

Prices cluster_prices(const Program& program, const Cluster& cluster) {
  const Network network(cluster);
  UnitPrices of_units(program, network);
  Prices prices;
  for (const RankProgram& rank : program.by_pp) {
    auto& parts = prices.parts.emplace_back();
    auto& times = prices.units.emplace_back();
    for (const Unit& unit : rank.units) {
      parts.push_back(of_units.of(unit));
      auto& total = times.emplace_back();
      for (std::size_t pass = 0; pass < total.size(); ++pass) total[pass] = parts.back()[pass].total();
    }
    auto& buckets = prices.buckets.emplace_back();
    std::int64_t elements = 0;
    for (const Bucket& bucket : rank.buckets) {
      buckets.push_back(price_bucket(program, bucket, network));
      elements += stored_elements(program, bucket).state;
    }
    prices.optimizer.push_back(
        optimizer_time(program.dtype, program.gradient_dtype, static_cast<double>(elements), cluster.device));
    for (const Instruction& i : rank.code)
      if (i.code == Code::kSend) {
        const Bytes bytes = local_bytes(
            rank.units[static_cast<std::size_t>(i.unit)].slots[static_cast<std::size_t>(message_slot(rank, i))].spec,
            program.mesh);
        prices.latency = std::max(prices.latency, network.message(bytes, program.mesh.num_ranks()));
        break;
      }
  }
  const auto small = [&](int values, RankGroup group) {
    return network.collective(CollectiveKind::kAllReduce, {8 * values}, group).time;
  };
  prices.count = small(kCountValues, ranks_of(Group::kData, program.mesh));
  prices.norm = small(kNormValues, {1, program.num_ranks()});
  prices.interference = cluster.device.interference;
  prices.overlap = cluster.device.overlaps ? Overlap::kDma : Overlap::kNone;
  return prices;
}

void disturb(Prices& prices, const Disturbance& disturbance) {
  check(disturbance.factor.empty() || disturbance.factor.size() == prices.units.size(), "a factor for each coordinate");
  const RandomStream random(disturbance.seed, Purpose::kTest, hash_name("jitter"));
  std::uint64_t drawn = 0;
  for (std::size_t pp = 0; pp < prices.units.size(); ++pp)
    for (std::size_t u = 0; u < prices.units[pp].size(); ++u)
      for (std::size_t pass = 0; pass < prices.units[pp][u].size(); ++pass) {
        double factor = disturbance.factor.empty() ? 1 : disturbance.factor[pp];
        if (disturbance.jitter > 0) factor *= std::max(0.1, 1 + disturbance.jitter * random.normal(drawn++));
        Seconds& time = prices.units[pp][u][pass];
        if (!prices.parts.empty()) prices.parts[pp][u][pass].compute.value += time.value * (factor - 1);
        time.value *= factor;
      }
  prices.latency.value *= disturbance.link;
}

void hide_experts(Prices& prices) {
  for (std::size_t pp = 0; pp < prices.parts.size(); ++pp)
    for (std::size_t u = 0; u < prices.parts[pp].size(); ++u)
      for (std::size_t pass = 0; pass < prices.units[pp][u].size(); ++pass) {
        PassPrice& part = prices.parts[pp][u][pass];
        part.compute.value += prices.interference * part.ep.value;
        part.ep = {};
        prices.units[pp][u][pass] = part.total();
      }
}

Breakdown break_down(const Program& program, const Prices& prices, const VirtualRun& run) {
  const RunReport shown = report(program, run);
  Breakdown out;
  out.makespan = run.makespan;
  double mean = 0;
  for (const Seconds work : shown.work) mean += work.value / static_cast<double>(shown.work.size());
  out.pp = static_cast<int>(std::max_element(shown.work.begin(), shown.work.end()) - shown.work.begin());
  const auto pp = static_cast<std::size_t>(out.pp);
  const RankProgram& list = program.by_pp[pp];
  out.imbalance = {shown.work[pp].value - mean};
  for (std::size_t i = 0; i < list.code.size(); ++i) {
    const Instruction& instruction = list.code[i];
    const Seconds spent = run.by_pp[pp][i].end - run.by_pp[pp][i].start;
    switch (instruction.code) {
      case Code::kRun: {
        Seconds inside;
        if (!prices.parts.empty()) {
          const PassPrice& part = prices.parts[pp][static_cast<std::size_t>(instruction.unit)][price_of(instruction)];
          out.tp += part.tp, out.cp += part.cp, out.ep += part.ep, inside = part.tp + part.cp + part.ep;
        }
        out.compute += spent - inside;
        break;
      }
      case Code::kOptStep:
        out.optimizer += spent;
        break;
      case Code::kWait:
        if (const Code of = list.code[static_cast<std::size_t>(instruction.waits_for)].code;
            of == Code::kSend || of == Code::kRecv)
          break;
        [[fallthrough]];
      case Code::kUnshard:
      case Code::kReduce:
      case Code::kGatherParams:
      case Code::kCountTokens:
        out.dp += spent;
        break;
      case Code::kReduceRest:
        out.dp +=
            prices.buckets.empty() ? Seconds{} : prices.buckets[pp][static_cast<std::size_t>(instruction.bucket)].rest;
        break;
      case Code::kGradNorm:
        out.dp += prices.norm;
        break;
      default:
        break;
    }
  }
  out.compute = out.compute - out.imbalance;
  out.pipeline = shown.bubbles[pp].message;
  out.bubble =
      out.makespan - out.compute - out.imbalance - out.optimizer - out.tp - out.cp - out.ep - out.dp - out.pipeline;
  return out;
}

}  // namespace sextant
