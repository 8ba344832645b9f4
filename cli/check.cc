#include <cstdio>
#include <iostream>

#include "cli/cli.h"
#include "sextant/program/examine.h"
#include "sextant/runtime/train/trainer.h"
#include "sextant/sim/virtual_run.h"

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
  const MemoryPlan& memory = prepared.memory[prepared.worst];
  const Examination examination = require_sound(program);
  const Plan& plan = config.plan;
  const std::int64_t windows = prepared.sampler.windows();
  std::size_t instructions = 0;
  for (const RankProgram& rank : program.by_pp) instructions += rank.code.size();
  const auto count = [](std::size_t n, const char* what) { return str(n, " ", what, n == 1 ? "" : "s"); };
  out << printable(config.file) << ": valid\n"
      << "  model       " << config.model.family << ", " << with_commas(model.num_parameters()) << " parameters\n"
      << "  ranks       " << plan.num_ranks() << " = dp_replicate " << plan.dp_replicate << " x dp_shard "
      << plan.dp_shard << " x cp " << plan.cp << " x tp " << plan.tp << " x pp " << plan.pp << "\n"
      << "  step        " << config.workload.global_batch << " sequences of " << config.workload.sequence
      << " tokens: " << plan.num_microbatches << (plan.num_microbatches == 1 ? " microbatch of " : " microbatches of ")
      << plan.microbatch_size << " on each data-parallel rank\n"
      << "  data        " << with_commas(prepared.tokens.size()) << " tokens, " << with_commas(windows) << " windows; "
      << static_cast<double>(config.steps) * static_cast<double>(config.workload.global_batch) /
             static_cast<double>(windows)
      << " epochs in " << with_commas(config.steps) << " steps\n"
      << "  program     " << count(instructions, "instruction") << " in " << count(program.by_pp.size(), "list") << ", "
      << count(model.layers.size(), "unit") << ", " << count(static_cast<std::size_t>(program.num_stages), "stage")
      << "; sound: no deadlock, every gradient summed once, everything freed\n";
  if (plan.pp > 1) {
    const RunReport r = report(program, run_virtually(program, equal_prices(program, {Seconds{1}, {1}, {1}})));
    char line[160];
    std::snprintf(line, sizeof line,
                  "  schedule    %s: %.1f %% of the step is bubble if all passes and layers take equal times\n",
                  printable(plan.schedule, 60).c_str(), 100 * r.bubble_fraction);
    out << line << "  messages    with blocking sends each pair of ranks would need "
        << count(static_cast<std::size_t>(examination.least_slots), "buffer") << "\n";
  }
  out << "  memory      " << human(memory.peak) << " a rank at its peak, in " << memory.peak_where
      << (plan.pp > 1 ? str(" (pp ", prepared.worst, ")") : "") << "\n";
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
  const StepBytes bytes = promised_bytes(program, 0, {});
  out << "  traffic     " << human(bytes.total()) << " received by the first rank in a step\n";
  Value groups{Value::Object{}};
  const auto group = [&](std::string_view name, Bytes b) {
    groups.set(name, b.value);
    if (b.value > 0) out << "    over " << name << ": " << human(b) << "\n";
  };
  for (int g = 0; g < kNumGroups; ++g) group(name_of(static_cast<Group>(g)), bytes[static_cast<Group>(g)]);
  group("stage borders", bytes.messages);
  Value::Array peaks;
  for (const MemoryPlan& m : prepared.memory) peaks.push_back(m.peak.value);
  Value v;
  v.set("valid", true);
  v.set("parameters", model.num_parameters());
  v.set("ranks", plan.num_ranks());
  v.set("instructions", static_cast<std::int64_t>(instructions));
  v.set("buffers_a_pair", examination.least_slots);
  v.set("predicted_peak_memory_bytes", memory.peak.value);
  v.set("predicted_peak_memory_by_pp_bytes", std::move(peaks));
  v.set("predicted_peak_memory_by_tag_bytes", std::move(tags));
  v.set("predicted_comm_bytes", bytes.total().value);
  v.set("predicted_comm_by_group_bytes", std::move(groups));
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
