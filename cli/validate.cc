#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>

#include "cli/cli.h"
#include "cli/forecast_text.h"
#include "sextant/base/mapped_file.h"
#include "sextant/planner/published_run.h"

namespace sextant::cli {
namespace {

// The part of an id that names its source: "vtrain-multi-..." is of "vtrain".
std::string family_of_id(const std::string& id) { return id.substr(0, id.find('-')); }

Value to_value(const Accuracy& a) {
  Value v;
  v.set("rows", std::int64_t{a.rows});
  v.set("covered", a.rows > 0 ? static_cast<double>(a.priced) / a.rows : 0);
  v.set("timed", std::int64_t{a.timed});
  v.set("mape", a.mape);
  v.set("median_abs", a.median_abs);
  v.set("bias", a.bias);
  v.set("memories", std::int64_t{a.memories});
  v.set("memory_mean", a.memory_mean);
  v.set("trials", std::int64_t{a.trials});
  v.set("oom_accuracy", a.oom_accuracy);
  v.set("sweeps", std::int64_t{a.sweeps});
  v.set("regret_median", a.regret_median);
  v.set("regret_worst", a.regret_worst);
  return v;
}

void print_line(const std::string& name, const Accuracy& a) {
  char line[200];
  const auto cell = [](bool there, double fraction) { return there ? percent(fraction) : std::string("-"); };
  std::snprintf(line, sizeof line, "%-14s %5d %6d %5d %8s %8s %8s  %5d %8s  %5d %8s  %4d %8s %8s\n",
                printable(name, 14).c_str(), a.rows, a.priced, a.timed, cell(a.timed > 0, a.mape).c_str(),
                cell(a.timed > 0, a.median_abs).c_str(), cell(a.timed > 0, a.bias).c_str(), a.memories,
                cell(a.memories > 0, a.memory_mean).c_str(), a.trials, cell(a.trials > 0, a.oom_accuracy).c_str(),
                a.sweeps, cell(a.sweeps > 0, a.regret_median).c_str(), cell(a.sweeps > 0, a.regret_worst).c_str());
  std::cout << line;
}

int run_validate(const Arguments& a) {
  if (a.words().size() != 1)
    throw InvalidInput("sextant validate: give one file of published runs, e.g. sextant validate runs.json",
                       ExitCode::kUsage);
  const std::string file = a.words()[0];
  require_outputs(a, {"--json"}, {file});
  const Value rows = parse_json(read_file(file, std::int64_t{1} << 28), file);
  const auto* list = std::get_if<Value::Array>(&rows.data);
  if (!list) throw InvalidInput(str(printable(file), ": expected a JSON array of rows"));
  const std::string only = a.value("--only").value_or("");
  std::vector<PricedRun> all;
  std::map<std::string, std::vector<PricedRun>> by_source;
  for (const Value& row : *list) {
    const RunRow read = read_published_run(row, file);
    const std::string& id =
        std::holds_alternative<NotPriced>(read) ? std::get<NotPriced>(read).id : std::get<PublishedRun>(read).id;
    if (id.rfind(only, 0) != 0) continue;
    all.push_back(price(read));
    by_source[family_of_id(id)].push_back(all.back());
  }
  const Accuracy overall = accuracy_of(all);
  Value v;
  Value::Array rows_out;
  for (const PricedRun& r : all) {
    Value one;
    one.set("id", r.id);
    if (!r.priced) {
      one.set("reason", r.reason);
    } else {
      one.set("predicted_s", r.predicted_s);
      one.set("measured_s", r.measured_s > 0 ? Value(r.measured_s) : Value());
      one.set("predicted_bytes", r.predicted_bytes);
      one.set("measured_bytes", r.measured_bytes > 0 ? Value(r.measured_bytes) : Value());
      one.set("fits", r.fits);
      if (r.is_memory_trial) one.set("out_of_memory", r.out_of_memory);
    }
    rows_out.push_back(std::move(one));
  }
  v.set("rows", std::move(rows_out));
  v.set("overall", to_value(overall));
  Value sources{Value::Object{}};
  for (const auto& [source, runs] : by_source) sources.set(source, to_value(accuracy_of(runs)));
  v.set("by_source", std::move(sources));
  write_json(a, v);
  if (a.value("--json") == "") return 0;

  if (a.has("--rows")) {
    std::vector<const PricedRun*> timed;
    for (const PricedRun& r : all)
      if (r.priced && r.measured_s > 0) timed.push_back(&r);
    std::stable_sort(timed.begin(), timed.end(), [](const PricedRun* x, const PricedRun* y) {
      return std::abs(std::log(x->predicted_s / x->measured_s)) > std::abs(std::log(y->predicted_s / y->measured_s));
    });
    std::cout << "worst first:  predicted   measured   ratio   row\n";
    for (const PricedRun* r : timed) {
      char line[64];
      std::snprintf(line, sizeof line, "            %10s %10s %7.2f   ", human(Seconds{r->predicted_s}).c_str(),
                    human(Seconds{r->measured_s}).c_str(), r->predicted_s / r->measured_s);
      std::cout << line << printable(r->id, 80) << "\n";
    }
    for (const PricedRun& r : all)
      if (!r.priced) std::cout << "not priced: " << printable(r.id, 80) << ": " << printable(r.reason, 160) << "\n";
    std::cout << "\n";
  }
  std::cout
      << "source          rows priced timed     mean   median     bias  memory     mean trials    right sweeps regret: "
         "median, worst\n";
  for (const auto& [source, runs] : by_source) print_line(source, accuracy_of(runs));
  print_line("all", overall);
  return 0;
}

}  // namespace

const Command validate = {
    "validate",
    "RUNS.json",
    "Prices published runs and says how far the prices are off: time, memory, what fits, and which plan is best.",
    {{"--only", "PREFIX", "rows whose id starts so"},
     {"--rows", "", "every row, worst first, and why others are not priced"},
     {"--json", "[=FILE]", "every row and all figures as JSON; fractions"}},
    "A row is {id, source, hardware {gpu, gpus}, model {layers, hidden ...}, plan {dp, tp, pp, cp, mbs, gbs ...},\n"
    "measured {iter_time_s | tokens_per_s_per_gpu | memory_gb | oom}}; docs/validation.md says what is read from "
    "it.\n\n"
    "Example:\n  sextant validate runs.json --only korthikanti --rows\n",
    run_validate};

}  // namespace sextant::cli
