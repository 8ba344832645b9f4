#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>

#include "cli/cli.h"
#include "cli/forecast_text.h"
#include "sextant/planner/planner.h"

namespace sextant::cli {
namespace {

using Wishes = std::map<std::string, int>;

// "tp=16,pp=4".
Wishes read_wishes(const std::string& text, const std::string& option) {
  static const std::vector<std::string> kKnown = {
      "tp", "cp", "pp", "dp", "ep", "etp", "zero", "virtual_stages", "microbatch_size"};
  Wishes out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    char* end = nullptr;
    const long value = equals == std::string::npos ? -1 : std::strtol(part.c_str() + equals + 1, &end, 10);
    if (value < 0 || value > (1 << 24) || (end && *end != '\0') ||
        std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) {
      const std::string near = nearest(key, kKnown);
      throw InvalidInput(
          str("sextant plan: ", option, " ", printable(text, 60), ": expected numbers such as tp=16,pp=4; ",
              near.empty() || near == key ? "known: " + join(kKnown, ", ") : "did you mean " + near + "?"),
          ExitCode::kUsage);
    }
    out[key] = static_cast<int>(value);
  }
  return out;
}

// The space with only what is wished.
Space narrowed(const Request& request, Space space, const Wishes& wishes) {
  const auto only = [&](const char* key, auto& list) {
    if (const auto wish = wishes.find(key); wish != wishes.end()) {
      using Number = typename std::remove_reference_t<decltype(list)>::value_type;
      list = {static_cast<Number>(wish->second)};
    }
  };
  only("tp", space.tp);
  only("cp", space.cp);
  only("pp", space.pp);
  only("ep", space.ep);
  only("etp", space.etp);
  only("zero", space.zero);
  only("virtual_stages", space.virtual_stages);
  only("microbatch_size", space.microbatch_sizes);
  if (const auto dp = wishes.find("dp"); dp != wishes.end() && dp->second > 0) {
    // The pipeline takes what dp leaves.
    std::vector<int> pp;
    for (const int n : space.pp)
      for (const int tp : space.tp)
        for (const int cp : space.cp)
          if (std::int64_t{n} * tp * cp * dp->second == request.devices && std::count(pp.begin(), pp.end(), n) == 0)
            pp.push_back(n);
    space.pp = pp;
  }
  return space;
}

std::int64_t tokens_of(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  const std::string unit = end ? end : "";
  if (unit == "k" || unit == "K") value *= 1 << 10;
  if (unit == "M") value *= 1 << 20;
  if (end == text.c_str() || !(unit.empty() || unit == "k" || unit == "K" || unit == "M") ||
      !(value >= 1 && value < 1e15))
    throw InvalidInput(str("sextant plan: --global-batch-tokens ", printable(text, 40),
                           ": expected a number of tokens, e.g. 16M (16 x 1,048,576)"),
                       ExitCode::kUsage);
  return static_cast<std::int64_t>(value);
}

Request read_request(const Arguments& a) {
  a.at_most_words(0);
  for (const char* needed : {"--model", "--cluster", "--devices", "--sequence"})
    if (!a.has(needed))
      throw InvalidInput(str("sextant plan: ", needed,
                             " is missing, e.g.\n  sextant plan --model llama3.1-405b --cluster "
                             "h100-dgx --devices 16384 --sequence 8192 --global-batch 2048"),
                         ExitCode::kUsage);
  Request r;
  r.model = find_model(*a.value("--model"));
  r.cluster = find_cluster(*a.value("--cluster"));
  r.devices = static_cast<int>(a.integer("--devices", 0, 1, 1 << 24));
  r.workload.sequence = a.integer("--sequence", 0, 1, 1 << 24);
  if (a.has("--global-batch") == a.has("--global-batch-tokens"))
    throw InvalidInput("sextant plan: give one of --global-batch (sequences) and --global-batch-tokens",
                       ExitCode::kUsage);
  if (a.has("--global-batch")) {
    r.workload.global_batch = a.integer("--global-batch", 0, 1, 1 << 30);
  } else {
    const std::int64_t tokens = tokens_of(*a.value("--global-batch-tokens"));
    if (tokens % r.workload.sequence != 0 || tokens < r.workload.sequence)
      throw InvalidInput(
          str("sextant plan: ", tokens, " tokens are no whole number of sequences of ", r.workload.sequence,
              "; nearest: ", std::max<std::int64_t>(1, tokens / r.workload.sequence) * r.workload.sequence));
    r.workload.global_batch = tokens / r.workload.sequence;
  }
  r.model.mtp_depth = static_cast<int>(a.integer("--mtp-depth", 0, 0, 1));
  const std::string precision = a.value("--precision").value_or("bf16");
  if (precision != "bf16" && precision != "fp32" && precision != "fp8")
    throw InvalidInput(str("sextant plan: --precision ", printable(precision, 40), ": expected bf16, fp8 or fp32"),
                       ExitCode::kUsage);
  r.workload.dtype = precision == "fp32" ? DType::kF32 : DType::kBf16;
  if (precision == "fp8") {
    if (r.cluster.device.fp8 == 0)
      throw InvalidInput(str("sextant plan: --precision fp8: ", r.cluster.device.name, " has no fp8 in ",
                             printable(r.cluster.name, 60), "; use bf16"));
    r.model.product_type = ProductType::kFp8;
  }
  if (r.devices > r.cluster.most_devices())
    throw InvalidInput(str("sextant plan: ", printable(r.cluster.name, 60), " has at most ", r.cluster.most_devices(),
                           " devices, asked for ", r.devices));
  if (r.workload.sequence > r.model.max_positions)
    throw InvalidInput(str("sextant plan: --sequence ", r.workload.sequence,
                           " is longer than the model's positions: at "
                           "most ",
                           r.model.max_positions));
  return r;
}

// What is short, and the nearest change that fits.
std::string nothing_fits(const Request& r, const Answer& answer) {
  std::string out = "no plan fits";
  if (!answer.closest) {
    out += str(": none of ", with_commas(answer.counts.considered), " combinations divides ", r.devices, " devices, ",
               r.workload.global_batch, " sequences of ", r.workload.sequence, " tokens and ", r.model.layers,
               " layers; a global batch that is a multiple of ", r.devices, " or of a power of two divides more");
    return out;
  }
  const Ranked& c = *answer.closest;
  out += str(": memory is what is short. The plan that lacks least, ", words_of(c.plan), ", needs ",
             human(c.forecast.peak), " of ", human(r.cluster.device.memory), " (", c.forecast.peak_where, ")");
  // More devices hold more of the states; whether that is enough is tried.
  for (std::int64_t devices = 2LL * r.devices; devices <= r.cluster.most_devices() && devices <= 64LL * r.devices;
       devices *= 2) {
    Request more = r;
    more.devices = static_cast<int>(devices);
    const std::optional<Ranked> least = least_memory(more, space_of(more));
    if (least && least->fits)
      return out + str(". Nearest that fits: ", devices, " devices (", words_of(least->plan), ", ",
                       human(least->forecast.peak), ")");
  }
  return out + ". More devices of this kind do not help: use shorter sequences, or devices with more memory";
}

void print_table(std::ostream& out, const std::vector<Ranked>& plans) {
  out << "     step time   MFU     memory    plan\n";
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Ranked& p = plans[i];
    char line[96];
    std::snprintf(line, sizeof line, "%3zu  %9s  %6s  %9s   ", i + 1, human(p.forecast.step()).c_str(),
                  percent(p.forecast.mfu).c_str(), human(p.forecast.peak).c_str());
    out << line << words_of(p.plan) << "\n";
    if (i > 0) out << "       loses by " << difference(p.forecast, plans[0].forecast) << "\n";
  }
}

Value ranked_value(const Request& r, const Ranked& p) {
  Value v = to_value(p.forecast, r.workload, p.plan);
  v.set("bound_s", p.bound.value);
  v.set("fits", p.fits);
  return v;
}

int run_plan(const Arguments& a) {
  const auto start = std::chrono::steady_clock::now();
  const Request r = read_request(a);
  require_outputs(a, {"--json", "--out"}, {});
  Space space = space_of(r);
  if (const auto only = a.value("--only")) space = narrowed(r, space, read_wishes(*only, "--only"));
  SearchOptions options;
  options.ranked = static_cast<int>(a.integer("--top", 5, 1, 100)) - 1;
  const Answer answer = search(r, space, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  Value v;
  Value::Array plans;
  for (const Ranked& p : answer.plans) plans.push_back(ranked_value(r, p));
  v.set("plans", std::move(plans));
  if (answer.uneven) {
    Value uneven = ranked_value(r, *answer.uneven);
    Value::Array stages;
    for (const int n : answer.uneven->plan.stages) stages.emplace_back(std::int64_t{n});
    uneven.set("stages", std::move(stages));
    v.set("uneven", std::move(uneven));
  }
  if (answer.rule_of_thumb) v.set("rule_of_thumb", ranked_value(r, *answer.rule_of_thumb));
  Value certificate;
  if (!answer.plans.empty()) certificate.set("best", answer.plans[0].forecast.step().value);
  certificate.set("bound", answer.bound.value);
  certificate.set("proved", answer.proved);
  Value counts;
  counts.set("considered", answer.counts.considered);
  counts.set("indivisible", answer.counts.indivisible);
  counts.set("memory", answer.counts.memory);
  counts.set("bounded", answer.counts.bounded);
  counts.set("simulated", answer.counts.simulated);
  counts.set("too_large", answer.counts.too_large);
  certificate.set("counts", std::move(counts));
  v.set("certificate", std::move(certificate));
  v.set("seconds", seconds);

  std::optional<Ranked> asked;
  std::string why_not;
  if (const auto wishes = a.value("--why-not")) {
    SearchOptions one;
    one.ranked = 0;
    const Answer there = search(r, narrowed(r, space_of(r), read_wishes(*wishes, "--why-not")), one);
    if (!there.plans.empty())
      asked = there.plans[0];
    else
      why_not = nothing_fits(r, there);
    if (asked) v.set("why_not", ranked_value(r, *asked));
  }
  if (answer.plans.empty()) throw InvalidInput("sextant plan: " + nothing_fits(r, answer), ExitCode::kDoesNotFit);
  const Ranked& best = answer.plans[0];
  write_json(a, v);
  write_output(a, "--out",
               plan_file_text(*a.value("--model"), r.model, *a.value("--cluster"), r.devices, r.workload,
                              answer.uneven ? answer.uneven->plan : best.plan));
  if (a.value("--json") == "" || a.value("--out") == "") return 0;

  std::ostream& out = std::cout;
  out << *a.value("--model") << ", " << with_commas(build_model(r.model, {}).num_parameters()) << " parameters, on "
      << with_commas(r.devices) << " x " << r.cluster.device.name << ": " << with_commas(r.workload.global_batch)
      << " sequences of " << with_commas(r.workload.sequence) << " tokens a step\n\n";
  print_table(out, answer.plans);
  out << "\nbest: " << words_of(best.plan) << "\n";
  print_forecast(out, best.forecast, r.workload, best.plan, r.cluster);
  if (answer.uneven)
    out << "\nwith stages of other sizes: " << human(answer.uneven->forecast.step()) << " ("
        << percent(answer.uneven->forecast.step() / best.forecast.step() - 1)
        << "; not part of the proof), as a Megatron layout:\n  " << layout_of(answer.uneven->plan.stages) << "\n";
  if (answer.rule_of_thumb) {
    const Ranked& thumb = *answer.rule_of_thumb;
    const double more = thumb.forecast.step() / best.forecast.step() - 1;
    out << "\nrule of thumb (tp in the fast domain, then pp, rest dp): " << words_of(thumb.plan) << ": "
        << human(thumb.forecast.step()) << ", " << percent(std::abs(more)) << (more < 0 ? " faster: " : " slower: ")
        << difference(thumb.forecast, best.forecast) << "\n";
  } else {
    out << "\nrule of thumb (tp in the fast domain, then pp, rest dp): nothing of it fits\n";
  }
  if (asked) {
    out << "\nwhy not " << *a.value("--why-not") << ": its best, " << words_of(asked->plan) << ", takes "
        << human(asked->forecast.step()) << ": " << difference(asked->forecast, best.forecast) << "\n";
  } else if (!why_not.empty()) {
    out << "\nwhy not " << *a.value("--why-not") << ": " << why_not << "\n";
  }
  const Counts& c = answer.counts;
  out << "\ncertificate: best " << human(best.forecast.step()) << "; "
      << (answer.proved ? "every plan that was not simulated takes at least " : "NOT proved: stopped at the bound ")
      << human(answer.bound) << "\n  " << with_commas(c.considered) << " considered: " << with_commas(c.indivisible)
      << " do not divide, " << with_commas(c.memory) << " do not fit, " << with_commas(c.bounded)
      << " cannot be faster, " << with_commas(c.simulated) << " simulated (" << with_commas(c.too_large)
      << " of them too large); " << human(Seconds{seconds}) << "\n";
  return 0;
}

}  // namespace

const Command plan = {
    "plan",
    "--model MODEL --cluster CLUSTER --devices N --sequence S --global-batch B",
    "Finds the best split of a model over a cluster, proves it, and says why the others lose.",
    {{"--model", "NAME", "a preset, a config.json or its folder"},
     {"--cluster", "NAME", "a preset ('sextant presets --clusters') or a cluster file"},
     {"--devices", "N", "how many"},
     {"--sequence", "S", "tokens of a sequence"},
     {"--global-batch", "B", "sequences of a step"},
     {"--global-batch-tokens", "T", "or its tokens: 16M is 16 x 1,048,576"},
     {"--precision", "P", "bf16 (with float32 gradients and master weights), fp8 (its products), or fp32"},
     {"--mtp-depth", "1", "the head predicts a second token too, by a layer of its own (DeepSeek-V3)"},
     {"--only", "tp=8,...", "keeps to these: tp, cp, pp, dp, ep, etp, zero, virtual_stages, microbatch_size"},
     {"--why-not", "tp=16,...", "the best plan of that kind, and what it loses by"},
     {"--top", "N", "so many plans in the table (5)"},
     {"--out", "FILE", "the best plan as a plan file"},
     {"--json", "[=FILE]", "all of it as JSON"}},
    "Examples:\n"
    "  sextant plan --model llama3.1-8b --cluster h100-dgx --devices 64 --sequence 8192 --global-batch 512\n"
    "  sextant plan --model llama3.1-405b --cluster h100-dgx --devices 16384 --sequence 8192 --global-batch 2048 "
    "--why-not tp=16\n",
    run_plan};

}  // namespace sextant::cli
