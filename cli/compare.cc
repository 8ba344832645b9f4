#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "cli/cli.h"
#include "sextant/base/mapped_file.h"

namespace sextant::cli {
namespace {

constexpr std::size_t kShown = 6;

struct Summary {
  std::string file;
  Value json;
};

std::optional<double> number(const Value* v) {
  if (!v) return std::nullopt;
  if (const auto* d = std::get_if<double>(&v->data)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(&v->data)) return static_cast<double>(*i);
  return std::nullopt;
}

Summary read(const std::string& file) {
  Summary s{file, parse_json(read_file(file), file, ExitCode::kInvalid)};
  if (!number(s.json.find("step_time_s")) && !number(s.json.find("makespan")))
    throw InvalidInput(str(printable_path(file),
                           ": has neither step_time_s nor makespan; give summaries that 'sextant train --json=FILE' or "
                           "'sextant schedule --json=FILE' wrote"));
  // A run counts the bytes of all its steps, a prediction those of one.
  if (const auto bytes = number(s.json.find("comm_bytes")))
    s.json.set("comm_bytes_a_step", *bytes / number(s.json.find("steps")).value_or(1));
  return s;
}

// Where the two differ most, in seconds of a step.
struct Difference {
  std::string what;
  double a = 0, b = 0;
  double more() const { return b - a; }
};
std::vector<Difference> differences(const Value& a, const Value& b) {
  std::vector<Difference> out;
  const auto add = [&](const Value& summary, double Difference::*side) {
    const Value* times = summary.find("time_by_what_s");
    const double steps = number(summary.find("steps")).value_or(1);
    if (!times) return;
    for (const Member& m : std::get<Value::Object>(times->data)) {
      auto found = std::find_if(out.begin(), out.end(), [&](const Difference& d) { return d.what == m.key; });
      if (found == out.end()) found = out.insert(out.end(), {m.key});
      (*found).*side += number(&m.value).value_or(0) / steps;
    }
  };
  add(a, &Difference::a), add(b, &Difference::b);
  std::stable_sort(out.begin(), out.end(),
                   [](const Difference& x, const Difference& y) { return std::abs(x.more()) > std::abs(y.more()); });
  return out;
}

// What is not the same job: "heads 16 against 8". A prediction of another job is no prediction of this one.
std::vector<std::string> other_job(const Value& a, const Value& b) {
  const Value *x = a.find("job"), *y = b.find("job");
  std::vector<std::string> out;
  if (!x || !y || !std::holds_alternative<Value::Object>(x->data)) return out;
  const auto text = [](const Value* v) {
    if (!v) return std::string("nothing");
    if (const auto* s = std::get_if<std::string>(&v->data)) return s->empty() ? "none" : printable(*s, 40);
    const auto n = number(v);
    return n ? str(*n) : std::string("?");
  };
  for (const Member& m : std::get<Value::Object>(x->data))
    if (const std::string of_a = text(&m.value), of_b = text(y->find(m.key)); of_a != of_b)
      out.push_back(str(printable(m.key, 40), " ", of_a, " against ", of_b));
  return out;
}

int run_compare(const Arguments& args) {
  args.at_most_words(2);
  if (args.words().size() < 2)
    throw InvalidInput("sextant compare: two summaries are needed: sextant compare a.json b.json", ExitCode::kUsage);
  const Summary a = read(args.words()[0]), b = read(args.words()[1]);
  require_json(args, {a.file, b.file});
  std::ostream& out = args.value("--json") == "" ? std::cerr : std::cout;
  Value result, fields{Value::Object{}};
  const auto row = [&](const char* key, const char* what, bool is_bytes) {
    const auto x = number(a.json.find(key)), y = number(b.json.find(key));
    if (!x || !y) return;
    const auto text = [&](double v) {
      char plain[40];
      std::snprintf(plain, sizeof plain, "%.6g", v);
      return is_bytes ? human(Bytes{static_cast<std::int64_t>(v)}) : std::string(plain);
    };
    char line[200];
    std::snprintf(line, sizeof line, "  %-26s %14s %14s", what, text(*x).c_str(), text(*y).c_str());
    out << line;
    if (*x != 0 && *y != 0 && *x != *y) std::snprintf(line, sizeof line, "   x %.3f", *y / *x), out << line;
    out << "\n";
    Value pair{Value::Object{}};
    pair.set("a", *x);
    pair.set("b", *y);
    fields.set(key, std::move(pair));
  };
  out << "  " << std::string(26, ' ') << "              a              b\n";
  row("step_time_s", "seconds a step (median)", false);
  row("makespan", "makespan", false);
  row("bubble", "bubble", false);
  row("bubble_fraction", "bubble fraction", false);
  row("tokens_per_s", "tokens a second", false);
  row("mfu", "share of peak", false);
  row("peak_memory_bytes", "peak memory, first rank", true);
  row("resident_peak_bytes", "resident peak", true);
  row("comm_bytes_a_step", "bytes received in a step", true);
  row("sends", "messages", false);
  row("final_loss", "last loss", false);
  const char* key = a.json.find("step_time_s") && b.json.find("step_time_s") ? "step_time_s" : "makespan";
  const auto x = number(a.json.find(key)), y = number(b.json.find(key));
  if (!x || !y)
    throw InvalidInput(str(printable_path(a.file), " and ", printable_path(b.file),
                           ": one is of a run, the other of a schedule; compare two of a kind"));
  char line[200];
  if (*x == *y)
    std::snprintf(line, sizeof line, "\nBoth take the same time.");
  else
    std::snprintf(line, sizeof line, "\n%s is %.1f %% faster.", *y < *x ? "b" : "a",
                  100 * (std::max(*x, *y) / std::min(*x, *y) - 1));
  out << line;
  Value::Array others;
  if (const std::vector<std::string> other = other_job(a.json, b.json); !other.empty()) {
    out << " These are not the same job: " << join(other, ", ") << ".";
    for (const std::string& what : other) others.emplace_back(what);
  }
  Value::Array changes;
  const std::vector<Difference> found = differences(a.json, b.json);
  std::size_t shown = 0;
  for (const Difference& d : found) {
    Value change;
    change.set("what", d.what);
    change.set("a_s", d.a);
    change.set("b_s", d.b);
    changes.push_back(std::move(change));
    if (shown++ < kShown && d.more() != 0)
      out << (shown == 1 ? " In a step of the first rank, b spends\n" : "") << "  "
          << human(Seconds{std::abs(d.more())}) << (d.more() < 0 ? " less in " : " more in ") << d.what << " ("
          << human(Seconds{d.a}) << " -> " << human(Seconds{d.b}) << ")\n";
  }
  if (found.empty()) out << "\n";
  result.set("other_job", std::move(others));
  result.set("fields", std::move(fields));
  result.set("b_over_a", *y / *x);
  result.set("time_by_what", std::move(changes));
  write_json(args, result);
  return 0;
}

}  // namespace

const Command compare = {
    "compare",
    "A.json B.json",
    "Puts two summaries side by side, and says where their time differs.",
    {{"--json", "[=FILE]", "the comparison as JSON"}},
    "Summaries are what 'sextant train --json=FILE', 'sextant simulate --json=FILE' (predicted against measured) or\n"
    "'sextant schedule --json=FILE' wrote.\n\n"
    "Example:\n  sextant compare a.json b.json\n",
    run_compare};

}  // namespace sextant::cli
