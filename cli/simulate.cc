#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>

#include "cli/cli.h"
#include "cli/forecast_text.h"
#include "sextant/plan/job.h"
#include "sextant/plan/plan_file.h"
#include "sextant/planner/spread.h"
#include "sextant/program/examine.h"
#include "sextant/trace/timeline.h"

namespace sextant::cli {
namespace {

// "2=1.3,4=1.1": coordinates and their factors.
std::vector<double> read_slow(const std::string& text, int num_coordinates) {
  std::vector<double> out(static_cast<std::size_t>(num_coordinates), 1);
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = part.find('=');
    char *end = nullptr, *factor_end = nullptr;
    const long pp = std::strtol(part.c_str(), &end, 10);
    const double factor = equals == std::string::npos ? 0 : std::strtod(part.c_str() + equals + 1, &factor_end);
    if (equals == std::string::npos || end != part.c_str() + equals || pp < 0 || pp >= num_coordinates ||
        *factor_end != '\0' || !(factor > 0 && factor < 1e6))
      throw InvalidInput(
          str("sextant simulate: --slow ", printable(text, 40), ": expected PP=FACTOR, with PP from 0 to ",
              num_coordinates - 1, ", e.g. --slow 0=1.2,3=1.1"),
          ExitCode::kUsage);
    out[static_cast<std::size_t>(pp)] = factor;
  }
  return out;
}

void set_spread(Value& v, const Spread& spread) {
  Value::Array changed;
  for (const Assumption& one : spread.changed) {
    Value c;
    c.set("what", one.what);
    c.set("step_time_s", one.step.value);
    changed.push_back(std::move(c));
  }
  Value all;
  all.set("least_s", spread.least.value);
  all.set("greatest_s", spread.greatest.value);
  all.set("changed", std::move(changed));
  v.set("spread", std::move(all));
}

void print_spread(const Spread& spread) {
  std::cout << "\nbetween " << human(spread.least) << " and " << human(spread.greatest) << "; what moves it most:\n";
  for (const Assumption& one : spread.changed) {
    char line[120];
    std::snprintf(line, sizeof line, "  %+6.1f %%  %s\n", 100 * (one.step / spread.step - 1), one.what.c_str());
    std::cout << line;
  }
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
  if (const auto slow = a.value("--slow"))
    disturbance.factor = read_slow(*slow, static_cast<int>(program.by_pp.size()));
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
  v.set("job", job_of(file.model, file.workload, file.plan));
  v.set("peak_memory_bytes", plan_memory(program, 0, adamw_state(program.dtype), {}, 1).peak.value);
  v.set("comm_bytes", promised_bytes(program, 0, {}).total().value);
  Value times{Value::Object{}};
  for (const auto& [what, time] : time_by_what(program, cluster, run, 0)) times.set(what, time.value);
  v.set("time_by_what_s", std::move(times));
  const Request request{file.model, file.workload, cluster, file.plan.num_ranks(), disturbance.factor};
  std::optional<Spread> spread;
  if (a.has("--spread")) {
    spread = spread_of(request, file.plan);
    set_spread(v, *spread);
  }
  std::optional<Ranked> balanced;
  if (a.has("--balance")) {
    balanced = with_uneven_stages(request, {.plan = file.plan, .bound = {}, .forecast = f});
    Value::Array stages;
    for (const int n : balanced ? balanced->plan.stages : file.plan.stages) stages.emplace_back(std::int64_t{n});
    v.set("balanced_stages", std::move(stages));
    v.set("balanced_step_time_s", (balanced ? *balanced : Ranked{.forecast = f}).forecast.step().value);
  }
  write_json(a, v);
  if (a.value("--json") == "" || a.value("--trace") == "") return 0;
  std::cout << words_of(file.plan) << " on " << file.plan.num_ranks() << " x " << cluster.device.name << "\n";
  print_forecast(std::cout, f, file.workload, file.plan, cluster);
  if (spread) print_spread(*spread);
  if (balanced)
    std::cout << "\nbalanced by what units take here: " << human(balanced->forecast.step()) << " ("
              << percent(balanced->forecast.step() / f.step() - 1) << ") with\n  plan.stages = ["
              << numbers(balanced->plan.stages) << "]\n  as a Megatron layout " << layout_of(balanced->plan.stages)
              << "\n";
  else if (a.has("--balance"))
    std::cout << "\nno stages of other sizes fit and are faster by a thousandth\n";
  return 0;
}

}  // namespace

const Command simulate = {
    "simulate",
    "PLAN.toml [section.key=value ...]",
    "Runs a step of a plan in virtual time on a cluster: time by what it goes into, memory by what it holds.",
    {{"--cluster", "NAME", "a preset or a cluster file, in place of [cluster] name"},
     {"--devices", "N", "fills plan.dp_shard if the file leaves it out"},
     {"--slow", "PP=FACTOR,...", "the devices of a pipeline coordinate are slower by FACTOR"},
     {"--spread", "", "how far the step moves with what prices assume, and what moves it"},
     {"--balance", "", "stages of other sizes, such that the longest takes as little as can be with these devices"},
     {"--slow-links", "FACTOR", "messages between stages take so much longer"},
     {"--jitter", "S", "every pass is off by a share of its own, of deviation S"},
     {"--seed", "N", "of the jitter (1)"},
     {"--trace", "FILE", "the step, for chrome://tracing and ui.perfetto.dev"},
     {"--json", "[=FILE]", "all numbers as JSON; fractions, seconds, bytes"}},
    "Examples:\n"
    "  sextant simulate examples/plans/llama3-405b.toml\n"
    "  sextant simulate examples/plans/llama3-405b.toml plan.virtual_stages=4 --slow 3=1.1\n"
    "  sextant simulate examples/plans/llama3-405b.toml plan.virtual_stages=0 plan.schedule=1f1b --slow 0=1.5 "
    "--balance\n",
    run_simulate};

}  // namespace sextant::cli
