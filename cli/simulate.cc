#include <cstdio>
#include <iostream>

#include "cli/cli.h"
#include "cli/forecast_text.h"
#include "sextant/plan/plan_file.h"
#include "sextant/program/examine.h"
#include "sextant/trace/timeline.h"

namespace sextant::cli {
namespace {

// "2=1.3": a coordinate and its factor.
std::pair<int, double> read_slow(const std::string& text, int num_coordinates) {
  const auto equals = text.find('=');
  char* end = nullptr;
  const long pp = std::strtol(text.c_str(), &end, 10);
  const double factor = equals == std::string::npos ? 0 : std::strtod(text.c_str() + equals + 1, nullptr);
  if (equals == std::string::npos || end != text.c_str() + equals || pp < 0 || pp >= num_coordinates ||
      !(factor > 0 && factor < 1e6))
    throw InvalidInput(str("sextant simulate: --slow ", printable(text, 40), ": expected PP=FACTOR, with PP from 0 to ",
                           num_coordinates - 1, ", e.g. --slow 0=1.2"),
                       ExitCode::kUsage);
  return {static_cast<int>(pp), factor};
}

int run_simulate(const Arguments& a) {
  const PlanFile file =
      read_plan_file(a.file("a plan file"), a.overrides(), static_cast<int>(a.integer("--devices", 0, 1, 1 << 24)));
  require_outputs(a, {"--json", "--trace"}, {file.file});
  const std::string name = a.value("--cluster").value_or(file.cluster);
  if (name.empty())
    throw InvalidInput(str(printable(file.file),
                           ": no cluster; write [cluster] name = \"h100-dgx\", or --cluster "
                           "h100-dgx ('sextant presets --clusters' lists them)"));
  const Cluster cluster = find_cluster(name);
  sextant::validate(file.plan, file.model, file.workload, file.file);
  if (file.plan.num_ranks() > cluster.most_devices())
    throw InvalidInput(str(printable(file.file), ": the plan needs ", file.plan.num_ranks(), " devices, ",
                           printable(cluster.name, 60), " has at most ", cluster.most_devices()));
  const Program program = build_program(build_model(file.model, sizes_of(file.plan, file.workload)), file.plan);
  require_sound(program);
  Prices prices = cluster_prices(program, cluster);
  Disturbance disturbance;
  if (const auto slow = a.value("--slow")) {
    disturbance.factor.assign(program.by_pp.size(), 1);
    const auto [pp, factor] = read_slow(*slow, static_cast<int>(program.by_pp.size()));
    disturbance.factor[static_cast<std::size_t>(pp)] = factor;
  }
  disturbance.link = a.number("--slow-links", 1, 1e-3, 1e6);
  disturbance.jitter = a.number("--jitter", 0, 0, 1);
  disturbance.seed = static_cast<std::uint64_t>(a.integer("--seed", 1, 0, std::int64_t{1} << 62));
  disturb(prices, disturbance);
  const Forecast f = forecast(program, cluster, prices);
  Value v = to_value(f, file.workload, file.plan);
  // The fields of a training run's summary, so that the two can be compared.
  const VirtualRun run = run_virtually(program, prices);
  if (a.has("--trace")) write_output(a, "--trace", to_chrome_trace(timeline_of(program, run)));
  v.set("steps", 1);
  v.set("peak_memory_bytes", plan_memory(program, 0, adamw_state(program.dtype), {}, 1).peak.value);
  v.set("comm_bytes", promised_bytes(program, 0, {}).total().value);
  Value times{Value::Object{}};
  for (const auto& [what, time] : time_by_what(program, cluster, run, 0)) times.set(what, time.value);
  v.set("time_by_what_s", std::move(times));
  write_json(a, v);
  if (a.value("--json") == "" || a.value("--trace") == "") return 0;
  std::cout << words_of(file.plan) << " on " << file.plan.num_ranks() << " x " << cluster.device.name << "\n";
  print_forecast(std::cout, f, file.workload, file.plan, cluster);
  return 0;
}

}  // namespace

const Command simulate = {
    "simulate",
    "PLAN.toml [section.key=value ...]",
    "Runs a step of a plan in virtual time on a cluster: time by what it goes into, memory by what it holds.",
    {{"--cluster", "NAME", "a preset or a cluster file, in place of [cluster] name"},
     {"--devices", "N", "fills plan.dp_shard if the file leaves it out"},
     {"--slow", "PP=FACTOR", "the devices of a pipeline coordinate are slower by FACTOR"},
     {"--slow-links", "FACTOR", "messages between stages take so much longer"},
     {"--jitter", "S", "every pass is off by a share of its own, of deviation S"},
     {"--seed", "N", "of the jitter (1)"},
     {"--trace", "FILE", "the step, for chrome://tracing and ui.perfetto.dev"},
     {"--json", "[=FILE]", "all numbers as JSON; fractions, seconds, bytes"}},
    "Examples:\n"
    "  sextant simulate examples/plans/llama3-405b.toml\n"
    "  sextant simulate examples/plans/llama3-405b.toml plan.virtual_stages=4 --slow 3=1.1\n",
    run_simulate};

}  // namespace sextant::cli
