#include <cstdio>
#include <iostream>
#include <map>

#include "cli/cli.h"
#include "sextant/program/memory.h"
#include "sextant/program/program.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant::cli {
namespace {

int run_check(const Arguments& a) {
  // With the JSON on standard output the text goes to standard error.
  std::ostream& out = a.value("--json") == "" ? std::cerr : std::cout;
  const RunConfig config =
      read_run(a.file("a run file"), a.overrides(), static_cast<int>(a.integer("--ranks", 0, 1, 1 << 20)));
  require_json(a, files_of(config));
  const Prepared prepared = prepare(config);
  const Model& model = prepared.model;
  const Program& program = prepared.program;
  const MemoryPlan& memory = prepared.memory;
  const std::int64_t windows = prepared.sampler.windows();
  std::vector<NamedTraffic> conversions;
  for (const Unit& unit : program.by_pp[0].units)
    for (const auto& list : {unit.f, unit.b()})
      for (const NamedTraffic& t : traffic(unit, list, program.mesh)) conversions.push_back(t);
  out << printable(config.file) << ": valid\n"
      << "  model       " << config.model.family << ", " << with_commas(model.num_parameters()) << " parameters\n"
      << "  ranks       " << config.plan.num_ranks() << " = dp_replicate " << config.plan.dp_replicate << " x dp_shard "
      << config.plan.dp_shard << " x cp " << config.plan.cp << " x tp " << config.plan.tp << "\n"
      << "  step        " << config.workload.global_batch << " sequences of " << config.workload.sequence
      << " tokens: " << config.plan.num_microbatches
      << (config.plan.num_microbatches == 1 ? " microbatch of " : " microbatches of ") << config.plan.microbatch_size
      << " on each data-parallel rank\n"
      << "  data        " << with_commas(prepared.tokens.size()) << " tokens, " << with_commas(windows) << " windows; "
      << static_cast<double>(config.steps) * static_cast<double>(config.workload.global_batch) /
             static_cast<double>(windows)
      << " epochs in " << with_commas(config.steps) << " steps\n"
      << "  program     " << program.by_pp[0].code.size() << " instructions, " << program.by_pp[0].units.size()
      << " units, " << program.by_pp[0].buckets.size() << " buckets\n"
      << "  memory      " << human(memory.peak) << " a rank at its peak, in " << memory.peak_where << "\n";
  if (const std::string why = config.model.not_trained(); !why.empty()) out << "  note        " << why << "\n";
  Value tags{Value::Object{}};
  for (int t = 0; t < kNumMemoryTags; ++t) {
    const Bytes b = memory.at_peak[static_cast<std::size_t>(t)];
    const std::string name(name_of(static_cast<MemoryTag>(t)));
    tags.set(name, b.value);
    char line[80];
    std::snprintf(line, sizeof line, "    %-12s %s\n", name.c_str(), human(b).c_str());
    if (b.value > 0) out << line;
  }
  Value v;
  v.set("valid", true);
  v.set("parameters", model.num_parameters());
  v.set("ranks", config.plan.num_ranks());
  v.set("predicted_peak_memory_bytes", memory.peak.value);
  v.set("predicted_peak_memory_by_tag_bytes", std::move(tags));
  if (conversions.empty()) {
    const StepBytes bytes = promised_bytes(program, 0, {});
    out << "  traffic     " << human(bytes.total()) << " received by the first rank in a step\n";
    v.set("predicted_comm_bytes", bytes.total().value);
  } else {
    std::map<std::string, Traffic> by;
    for (const NamedTraffic& t : conversions) {
      Traffic& sum = by[str(name_of(t.traffic.kind), " over ", name_of(t.traffic.axis))];
      sum.calls += t.traffic.calls, sum.bytes += t.traffic.bytes;
    }
    out << "  note        tp and cp above 1 are lowered and printed; sums of gradients over them and training come "
           "later\n";
    for (const auto& [what, t] : by)
      out << "  traffic     " << what << ": " << t.calls << " calls, " << human(t.bytes) << " a microbatch\n";
  }
  write_json(a, v);
  return 0;
}

}  // namespace

const Command check = {"check",
                       "RUN.toml [--ranks N] [section.key=value ...]",
                       "Checks a run file and its program; nothing is run.",
                       {{"--ranks", "N", "fills plan.dp_shard if the file leaves it out"},
                        {"--json", "[=FILE]", "what was found as JSON"}},
                       "Example:\n  sextant check examples/kjv/run.toml --ranks 4\n",
                       run_check};

}  // namespace sextant::cli
