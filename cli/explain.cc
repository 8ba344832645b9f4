#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>

#include "cli/cli.h"
#include "cli/forecast_text.h"
#include "sextant/plan/plan_file.h"
#include "sextant/planner/planner.h"

namespace sextant::cli {
namespace {

std::string with_commas_of(double n) { return with_commas(static_cast<std::int64_t>(n)); }

struct Held {
  double parameters = 0, gradients = 0, state = 0;  // elements on a rank
};
Held held_by(const Program& program, std::size_t pp, Grid grid) {
  Held out;
  for (const Bucket& bucket : program.by_pp[pp].buckets) {
    if (bucket.grid != grid) continue;
    const Stored s = stored_elements(program, bucket);
    out.parameters += static_cast<double>(s.parameters), out.gradients += static_cast<double>(s.gradients),
        out.state += static_cast<double>(s.state);
  }
  return out;
}

// Layers by what they are; embedding and head by name.
std::string kind_of(const Unit& unit) {
  if (unit.layer < 0) return unit.name;
  for (const Parameter& p : unit.parameters)
    if (p.spec.grid == Grid::kExpert) return "layer of experts";
  return "layer";
}

Bytes kept_by(const Unit& unit, const MeshSizes& mesh) {
  Bytes sum;
  for (std::size_t s = 0; s < unit.slots.size(); ++s)
    if (unit.slots[s].life == Life::kKept || static_cast<int>(s) == unit.input)
      sum += slot_bytes(unit, static_cast<int>(s), mesh);
  return sum;
}

void explain_memory(std::ostream& out, const Program& program, const Plan& plan, const Forecast& f,
                    const Cluster& cluster) {
  const auto pp = static_cast<std::size_t>(f.worst);
  const RankProgram& rank = program.by_pp[pp];
  const std::int64_t p = size_of(program.dtype), g = size_of(program.gradient_dtype),
                     s = adamw_state(program.dtype).value;
  out << "memory of pp " << f.worst << ", which needs most: " << human(f.peak) << " of " << human(cluster.device.memory)
      << "\n  it holds " << rank.units.size() << " units\n";
  for (const Grid grid : {Grid::kDense, Grid::kExpert}) {
    double whole = 0;
    for (const Bucket& bucket : rank.buckets)
      if (bucket.grid == grid) whole += static_cast<double>(bucket.elements);
    if (whole == 0) continue;
    const bool experts = grid == Grid::kExpert;
    const Held held = held_by(program, pp, grid);
    const int shards = size_of(zero_group(grid), program.mesh), slices = experts ? plan.ep * plan.etp : plan.tp;
    const auto shard = [&](int from) {
      return plan.zero >= from && shards > 1 ? str(" / ", shards, " shards") : std::string();
    };
    const auto line = [&](const char* what, int from, double elements, std::int64_t each, const char* of) {
      out << "    " << what << with_commas_of(whole) << shard(from) << " x " << each << " B" << of << " = "
          << human(Bytes{static_cast<std::int64_t>(elements) * each}) << "\n";
    };
    out << "  " << with_commas_of(whole) << (experts ? " parameters of experts" : " parameters")
        << (slices > 1 ? str(" (its slices of ", experts ? "ep x etp " : "tp ", slices, ")") : "") << ":\n";
    line("parameters   ", 3, held.parameters, p, "");
    line("gradients    ", 2, held.gradients, g, "");
    line("optimizer    ", 1, held.state, s, p == 2 ? " (AdamW: two moments, master copy)" : " (AdamW: two moments)");
  }
  // Kept for the backward pass, by kind of unit.
  std::map<std::string, std::pair<int, Bytes>> kinds;
  for (const Unit& unit : rank.units) {
    auto& [count, bytes] = kinds[kind_of(unit)];
    ++count, bytes = kept_by(unit, program.mesh);
  }
  for (const auto& [name, kind] : kinds)
    out << "  " << name << (kind.first > 1 ? str(" (", kind.first, " of them)") : "") << " keeps " << human(kind.second)
        << " of a microbatch of " << plan.microbatch_size << (plan.microbatch_size == 1 ? " sequence" : " sequences")
        << "\n";
  const VirtualRun run = run_virtually(program, equal_prices(program, {Seconds{1}, {1}, {1}}));
  const int chunks = report(program, run).peak_chunks[pp];
  out << "  " << plan.schedule << " has up to " << chunks << (chunks == 1 ? " chunk" : " chunks")
      << " of a microbatch alive here (a rank has " << rank.stages.size()
      << (rank.stages.size() == 1 ? " chunk" : " chunks") << ", " << program.num_microbatches
      << (program.num_microbatches == 1 ? " microbatch" : " microbatches") << " a step)\n"
      << "  at the peak, in " << f.peak_where << ":\n";
  for (int t = 0; t < kNumMemoryTags; ++t) {
    const Bytes b = f.at_peak[static_cast<std::size_t>(t)];
    if (b.value == 0) continue;
    char line[80];
    std::snprintf(line, sizeof line, "    %-14s %10s\n", std::string(name_of(static_cast<MemoryTag>(t))).c_str(),
                  human(b).c_str());
    out << line;
  }
  out << "    reserved       " << human(cluster.device.reserve) << "\n";
}

void explain_time(std::ostream& out, const Program& program, const Plan& plan, const Prices& prices, const Forecast& f,
                  const Cluster& cluster) {
  const Breakdown& t = f.time;
  const auto pp = static_cast<std::size_t>(t.pp);
  const RankProgram& rank = program.by_pp[pp];
  const int M = program.num_microbatches;
  out << "\ntime of pp " << t.pp << ", which works most: " << human(t.makespan) << "\n";
  struct Line {
    int count = 0;
    UnitPrice price;
  };
  std::map<std::string, Line> kinds;
  for (std::size_t u = 0; u < rank.units.size(); ++u) {
    Line& line = kinds[kind_of(rank.units[u])];
    ++line.count, line.price = prices.parts[pp][u];
  }
  const bool is_fused = std::any_of(rank.code.begin(), rank.code.end(), [](const Instruction& i) { return i.fused; });
  const char* passes = is_fused ? "F, B" : "F, I, W";
  char head[200];
  std::snprintf(head, sizeof head, "  for one microbatch       %-34s %-26s %-26s %s\n", str("compute ", passes).c_str(),
                str("waits for tp ", passes).c_str(), str("for cp ", passes).c_str(), str("for ep ", passes).c_str());
  out << head;
  for (const auto& [name, line] : kinds) {
    const auto three = [&](Seconds PassPrice::*part) {
      if (is_fused) return str(human(line.price[0].*part), ", ", human(line.price[3].*part));
      return str(human(line.price[0].*part), ", ", human(line.price[1].*part), ", ", human(line.price[2].*part));
    };
    char text[200];
    std::snprintf(text, sizeof text, "  %3d x %-16s %-34s %-26s %-26s %s\n", line.count, name.c_str(),
                  three(&PassPrice::compute).c_str(), plan.tp > 1 ? three(&PassPrice::tp).c_str() : "-",
                  plan.cp > 1 ? three(&PassPrice::cp).c_str() : "-",
                  plan.ep * plan.etp > 1 ? three(&PassPrice::ep).c_str() : "-");
    out << text;
  }
  out << "  x " << M << " microbatches: compute " << human(t.compute + t.imbalance) << ", tp " << human(t.tp) << ", cp "
      << human(t.cp) << ", ep " << human(t.ep) << "\n";
  if (plan.pp > 1) {
    const int v = std::max<int>(1, static_cast<int>(rank.stages.size()));
    const double ideal = (plan.pp - 1.0) / (static_cast<double>(v) * M);
    out << "  bubble " << human(t.bubble) << ": " << percent(t.bubble / (t.makespan - t.bubble))
        << " of the rest; (pp - 1) / (V M) = (" << plan.pp << " - 1) / (" << v << " x " << M << ") = " << percent(ideal)
        << " if all chunks took the same\n"
        << "  a message between stages takes " << human(prices.latency) << "; not hidden: " << human(t.pipeline)
        << "\n";
  }
  double gathered = 0, reduced = 0;
  for (std::size_t b = 0; b < rank.buckets.size(); ++b)
    gathered += prices.buckets[pp][b].gather.value, reduced += prices.buckets[pp][b].reduce.value;
  const RankGroup zero = ranks_of(Group::kZero, program.mesh);
  if (zero.size > 1) {
    const Network network(cluster);
    const CollectiveTime one = network.collective(CollectiveKind::kReduceScatter, {std::int64_t{1} << 28}, zero);
    out << "  dp: " << rank.buckets.size() << (rank.buckets.size() == 1 ? " bucket" : " buckets") << " over "
        << zero.size << " ranks; reducing all once takes " << human(Seconds{reduced}) << ", gathering "
        << human(Seconds{gathered}) << " (" << name_of(one.algorithm) << ", out to the "
        << cluster.levels[static_cast<std::size_t>(one.level)].name << "); not hidden: " << human(t.dp) << "\n";
  }
  out << "  optimizer " << human(t.optimizer) << "\n"
      << "  MFU " << percent(f.mfu) << " = " << human(f.model_flops, "FLOP") << " / (" << human(t.makespan) << " x "
      << program.num_ranks() << " devices x " << human(cluster.device.peak(program.dtype), "FLOP/s")
      << "), attention in full\n";
}

// What a strategy saves and costs, against one device, computed with the model's own lists.
void explain_strategies(std::ostream& out, const Request& r, Value& json) {
  struct Strategy {
    const char* name;
    Plan plan;
    const char* eats;
  };
  const int n = std::min({8, r.cluster.levels[0].size, r.devices});
  const auto with = [&](Plan p) {
    p.microbatch_size = 1, p.num_microbatches = 8;
    p.bucket = {256'000'000};
    return p;
  };
  std::vector<Strategy> all = {
      {"one device", with({}), ""},
      {"dp", with({.dp_shard = n}), "batch: a sequence a rank and microbatch"},
      {"zero 1", with({.dp_shard = n, .zero = 1}), "batch"},
      {"zero 2", with({.dp_shard = n, .zero = 2, .reduce = GradientReduce::kMicrobatch}), "batch"},
      {"zero 3", with({.dp_shard = n, .zero = 3, .reduce = GradientReduce::kMicrobatch}), "batch"},
      {"tp", with({.tp = n}), "heads"},
      {"tp + sp", with({.tp = n, .sequence_parallel = true}), "heads, sequence"},
      {"cp", with({.cp = n, .cp_slices = Slices::kZigzag}), "sequence"},
      {"pp 1f1b", with({.pp = n}), "layers, and microbatches against the bubble"}};
  if (r.model.mixture.experts > 0) all.push_back({"dp + ep", with({.dp_shard = n, .ep = n}), "batch, experts"});
  all[4].plan.bucket = {0};
  out << "for one microbatch of one sequence a rank and 8 microbatches a step, each alone over " << n
      << " devices (GB a device; traffic: what a device receives in a step):\n\n"
      << "             parameters gradients optimizer activations   traffic   exposed  what it eats\n";
  Value::Array rows;
  for (const Strategy& s : all) {
    Workload w = r.workload;
    w.global_batch = 8 * s.plan.data_ranks();
    if (const auto broken = violations(s.plan, r.model, w); !broken.empty()) {
      out << s.name << ": not for this model: " << broken[0] << "\n";
      continue;
    }
    const Program program = build_program(build_model(r.model, sizes_of(s.plan, w)), s.plan);
    const Forecast f = forecast(program, r.cluster);
    const Bytes traffic = promised_bytes(program, f.worst, {}).total();
    const auto at = [&](MemoryTag tag) { return static_cast<double>(f.at_peak[static_cast<std::size_t>(tag)].value); };
    const Breakdown& t = f.time;
    const Seconds exposed = t.tp + t.cp + t.ep + t.dp + t.pipeline + t.bubble;
    char line[200];
    std::snprintf(line, sizeof line, "%-12s %10.2f %9.2f %9.2f %11.2f %7.2f GB %8s  %s\n", s.name,
                  (at(MemoryTag::kParameters) + at(MemoryTag::kGathered)) / 1e9, at(MemoryTag::kGradients) / 1e9,
                  at(MemoryTag::kOptimizer) / 1e9, (at(MemoryTag::kActivations) + at(MemoryTag::kBoundary)) / 1e9,
                  static_cast<double>(traffic.value) / 1e9, percent(exposed / t.makespan).c_str(), s.eats);
    out << line;
    Value v;
    v.set("strategy", s.name);
    v.set("peak_bytes", f.peak.value);
    v.set("received_bytes", traffic.value);
    v.set("exposed", exposed / t.makespan);
    rows.push_back(std::move(v));
  }
  json.set("strategies", std::move(rows));
  // Which link each wants: what its traffic takes over every level, against the time to compute.
  out << "\nexposed or hidden, by the level that its ranks span (time of its traffic / time to compute, one step):\n";
  const Network network(r.cluster);
  const Plan one = with({});
  Workload w = r.workload;
  w.global_batch = 8;
  const Program single = build_program(build_model(r.model, sizes_of(one, w)), one);
  const Seconds compute = forecast(single, r.cluster).time.compute;
  double elements = 0;
  for (const Bucket& b : single.by_pp[0].buckets) elements += static_cast<double>(b.elements);
  for (std::size_t l = 0; l < r.cluster.levels.size(); ++l) {
    const int stride = l == 0 ? 1 : r.cluster.levels[l - 1].size;
    if (stride * n > r.cluster.levels[l].size) continue;
    const RankGroup group{stride, n};
    const auto time = [&](CollectiveKind kind, double bytes) {
      return network.collective(kind, {static_cast<std::int64_t>(bytes)}, group).time.value;
    };
    const double element = static_cast<double>(size_of(r.workload.dtype));
    const double gradients = time(CollectiveKind::kAllReduce, elements * 4),
                 gathers = 8 * 2 * time(CollectiveKind::kAllGather, elements * element) +
                           8 * time(CollectiveKind::kReduceScatter, elements * 4);
    const double boundary = static_cast<double>(r.workload.sequence * r.model.width) * element;
    const double tp = 8.0 * 4 * static_cast<double>(r.model.layers) * time(CollectiveKind::kAllReduce, boundary),
                 pp = 8 * 2 * network.message({static_cast<std::int64_t>(boundary)}, stride).value;
    char line[200];
    std::snprintf(line, sizeof line,
                  "  %-10s dp %s, zero 3 %s (beside compute) · tp %s (in its way, of 1/%d compute) · pp %s\n",
                  r.cluster.levels[l].name.c_str(), percent(gradients / compute.value).c_str(),
                  percent(gathers / compute.value).c_str(), percent(tp / (compute.value / n)).c_str(), n,
                  percent(pp / (compute.value / n)).c_str());
    out << line;
  }
}

int run_explain(const Arguments& a) {
  require_outputs(a, {"--json"}, {});
  Value v;
  std::ostream& out = a.value("--json") == "" ? std::cerr : std::cout;
  if (a.has("--strategies")) {
    Request r;
    for (const char* needed : {"--model", "--cluster", "--sequence"})
      if (!a.has(needed))
        throw InvalidInput(str("sextant explain --strategies: ", needed,
                               " is missing, e.g.\n  sextant explain "
                               "--strategies --model llama3.1-8b --cluster h100-dgx --sequence 8192"),
                           ExitCode::kUsage);
    r.model = find_model(*a.value("--model"));
    r.cluster = find_cluster(*a.value("--cluster"));
    r.devices = r.cluster.most_devices();
    r.workload = {a.integer("--sequence", 0, 1, 1 << 24), 8, DType::kBf16};
    explain_strategies(out, r, v);
    write_json(a, v);
    return 0;
  }
  const PlanFile file = read_plan_file(a.file("a plan file"), a.overrides(), 0);
  const std::string name = a.value("--cluster").value_or(file.cluster);
  if (name.empty())
    throw InvalidInput(
        str(printable(file.file), ": no cluster; write [cluster] name = \"h100-dgx\", or --cluster h100-dgx"));
  const Cluster cluster = find_cluster(name);
  sextant::validate(file.plan, file.model, file.workload, file.file);
  const Program program = build_program(build_model(file.model, sizes_of(file.plan, file.workload)), file.plan);
  const Prices prices = cluster_prices(program, cluster);
  const Forecast f = forecast(program, cluster, prices);
  out << words_of(file.plan) << " on " << file.plan.num_ranks() << " x " << cluster.device.name << "\n\n";
  explain_memory(out, program, file.plan, f, cluster);
  explain_time(out, program, file.plan, prices, f, cluster);
  write_json(a, to_value(f, file.workload, file.plan));
  return 0;
}

}  // namespace

const Command explain = {
    "explain",
    "PLAN.toml [section.key=value ...] | --strategies --model MODEL --cluster CLUSTER --sequence S",
    "Says where memory and time of a plan come from, with the numbers put in; or what each strategy saves and costs.",
    {{"--cluster", "NAME", "a preset or a cluster file, in place of [cluster] name"},
     {"--strategies", "", "a table of all strategies for one model on one cluster"},
     {"--model", "NAME", "with --strategies"},
     {"--sequence", "S", "with --strategies: tokens of a sequence"},
     {"--json", "[=FILE]", "the numbers as JSON"}},
    "Examples:\n"
    "  sextant explain examples/plans/llama3-405b.toml\n"
    "  sextant explain --strategies --model llama3.1-8b --cluster h100-dgx --sequence 8192\n",
    run_explain};

}  // namespace sextant::cli
