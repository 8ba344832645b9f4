#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <utility>

#include "cli/cli.h"
#include "sextant/base/atomic_file.h"
#include "sextant/program/examine.h"
#include "sextant/sim/virtual_run.h"
#include "sextant/trace/gantt.h"

namespace sextant::cli {
namespace {

constexpr int kLeastColumns = 80, kMostColumns = 200;
constexpr int kMostRanks = 1 << 14, kMostMicrobatches = 1 << 20;
constexpr std::int64_t kMostActions = 20'000'000;  // about 2 GB

// "1,1,0.5": times of F, I and W.
std::array<Seconds, 3> read_times(const std::string& text) {
  std::array<Seconds, 3> out{};
  const auto fail = [&] {
    throw InvalidInput(
        str("sextant schedule: --times: found '", printable(text, 40),
            "', expected three numbers from 0 to 1e9, at least one above 0, for F, I and W: --times 1,1,1"),
        ExitCode::kUsage);
  };
  const char *at = text.data(), *end = text.data() + text.size();
  double sum = 0;
  for (std::size_t n = 0; n < out.size(); ++n) {
    const auto [behind, error] = std::from_chars(at, end, out[n].value);
    const bool is_last = n + 1 == out.size();
    if (error != std::errc() || !(out[n].value >= 0 && out[n].value <= 1e9) ||
        (is_last ? behind != end : behind == end || *behind != ','))
      fail();
    sum += out[n].value;
    at = behind + 1;
  }
  if (sum <= 0) fail();
  return out;
}

// "16,12,12,10".
std::vector<int> read_counts(const std::string& text) {
  std::vector<int> out;
  const char *at = text.data(), *end = text.data() + text.size();
  for (;;) {
    int n = 0;
    const auto [behind, error] = std::from_chars(at, end, n);
    if (error != std::errc() || n < 0 || n > kMostMicrobatches || (behind != end && *behind != ','))
      throw InvalidInput(str("sextant schedule: --most-live: found '", printable(text, 40),
                             "', expected microbatches that each rank may hold: --most-live 16,12,12,10"),
                         ExitCode::kUsage);
    out.push_back(n);
    if (behind == end) return out;
    at = behind + 1;
  }
}

int columns(const Arguments& a) {
  int found = kLeastColumns;
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) found = size.ws_col;
  return static_cast<int>(
      a.integer("--width", std::clamp(found, kLeastColumns, kMostColumns), kLeastColumns, kMostColumns));
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", std::abs(value) < 1e-9 ? 0 : value);
  return text;
}

std::string percent(double fraction) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * fraction);
  return text;
}

// The path's actions; runs of one action's units are one step.
std::vector<std::pair<PathStep, std::string>> path_actions(const Program& program, const RunReport& r) {
  std::vector<std::pair<PathStep, std::string>> out;
  for (const PathStep& step : r.critical_path) {
    const RankProgram& list = program.by_pp[static_cast<std::size_t>(step.pp)];
    const std::string name = action_name(list, list.code[static_cast<std::size_t>(step.instruction)]);
    if (out.empty() || out.back().second != name || out.back().first.pp != step.pp) out.emplace_back(step, name);
  }
  return out;
}

void print_numbers(std::ostream& out, const Program& program, const RunReport& r, const Examination& e) {
  out << "\nmakespan " << number(r.makespan.value) << ", bubble " << number(r.bubble.value) << " ("
      << percent(r.bubble_fraction) << " of the makespan), " << number(r.span_bubble.value)
      << " if the next step need not wait for all ranks; " << r.sends << " messages\n\n";
  out << "rank      work      fill  activation  gradient   message      send     drain   peak chunks\n";
  for (std::size_t pp = 0; pp < r.bubbles.size(); ++pp) {
    const Bubble& b = r.bubbles[pp];
    char line[160];
    std::snprintf(line, sizeof line, "r%-5zu%8s%10s%12s%10s%10s%10s%10s%14d\n", pp, number(r.work[pp].value).c_str(),
                  number(b.fill.value).c_str(), number(b.activation.value).c_str(), number(b.gradient.value).c_str(),
                  number(b.message.value).c_str(), number(b.send.value).c_str(), number(b.drain.value).c_str(),
                  r.peak_chunks[pp]);
    out << line;
  }
  out << "(idle: before the first pass, waiting for an activation or a gradient to be made, for it to travel, for an\n"
         " earlier message to be taken, behind the last pass)\n";
  const auto path = path_actions(program, r);
  out << "\ncritical path: ";
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.size() > 2 * kShown && i == kShown) {
      out << "... " << path.size() - 2 * kShown << " more ... ";
      i = path.size() - kShown;
    }
    const bool moves = i > 0 && path[i - 1].first.pp != path[i].first.pp;
    out << (i == 0  ? ""
            : moves ? "> "
                    : "")
        << (i == 0 || moves ? str("r", path[i].first.pp, " ") : "") << path[i].second << " ";
  }
  out << "\nchecked: sound; with blocking messages each pair of ranks would need " << e.least_slots
      << (e.least_slots == 1 ? " buffer" : " buffers");
  if (!e.disorder.empty()) {
    out << ", and tags, since messages are taken in another order than sent:";
    for (const Disorder& d : e.disorder) out << " r" << d.from << ">r" << d.to << " (" << d.places << ")";
  }
  out << "\n";
}

Value to_value(const Schedule& schedule, const Program& program, const VirtualRun& run, const RunReport& r,
               const Examination& e) {
  Value v;
  v.set("schedule", schedule.kind);
  v.set("ranks", schedule.num_ranks);
  v.set("stages", schedule.num_stages);
  v.set("microbatches", schedule.num_microbatches);
  v.set("makespan", r.makespan.value);
  v.set("bubble", r.bubble.value);
  v.set("bubble_fraction", r.bubble_fraction);
  v.set("span_bubble", r.span_bubble.value);
  Value::Array peaks, ops, path, bubbles, disorder, live;
  for (int pp = 0; pp < static_cast<int>(program.by_pp.size()); ++pp) {
    Value::Array changes;
    int chunks = 0;
    for (const LiveSample& s : live_over_time(program, run, pp)) {
      if (std::exchange(chunks, s.chunks) == s.chunks) continue;
      changes.push_back(Value::Array{s.time.value, s.chunks});
    }
    live.push_back(std::move(changes));
  }
  for (const int p : r.peak_chunks) peaks.push_back(p);
  for (const auto& actions : schedule.by_rank) ops.push_back(to_string(actions));
  for (std::size_t pp = 0; pp < r.bubbles.size(); ++pp) {
    const Bubble& b = r.bubbles[pp];
    Value one;
    one.set("work", r.work[pp].value);
    one.set("fill", b.fill.value);
    one.set("activation", b.activation.value);
    one.set("gradient", b.gradient.value);
    one.set("message", b.message.value);
    one.set("send", b.send.value);
    one.set("drain", b.drain.value);
    bubbles.push_back(std::move(one));
  }
  for (const auto& [step, name] : path_actions(program, r)) {
    const Span& span = run.by_pp[static_cast<std::size_t>(step.pp)][static_cast<std::size_t>(step.instruction)];
    Value one;
    one.set("rank", step.pp);
    one.set("op", name);
    one.set("start", span.start.value);
    one.set("end", span.end.value);
    path.push_back(std::move(one));
  }
  for (const Disorder& d : e.disorder) {
    Value one;
    one.set("from", d.from);
    one.set("to", d.to);
    one.set("places", d.places);
    disorder.push_back(std::move(one));
  }
  v.set("peak_chunks", std::move(peaks));
  v.set("live_chunks", std::move(live));
  v.set("sends", r.sends);
  v.set("ops", std::move(ops));
  v.set("critical_path", std::move(path));
  v.set("time_by_rank", std::move(bubbles));
  v.set("buffers_a_pair", e.least_slots);
  v.set("out_of_order", std::move(disorder));
  return v;
}

// What is off with a kind or its shape is off with the command line.
Schedule read_schedule(const std::string& id, const ScheduleShape& shape) {
  try {
    return schedule_of(id, shape);
  } catch (const InvalidInput& e) {
    if (is_file(id)) throw;
    throw InvalidInput(str("sextant schedule: ", e.what()), ExitCode::kUsage);
  }
}

Examination require_sound_schedule(const Program& program, const std::string& id) {
  try {
    return require_sound(program);
  } catch (const InvalidInput& e) {
    if (!is_file(id)) throw;
    throw InvalidInput(str(printable_path(id.substr(4)), ": ", e.what()));
  }
}

// The list of kinds, for `sextant schedule` without one.
void list_kinds() {
  for (const ScheduleKind& kind : schedule_kinds()) {
    std::string id = "  " + kind.id;
    id.resize(15, ' ');
    std::cout << id << kind.summary << "\n";
  }
  std::cout << "  csv:FILE     a file in PyTorch's notation: a row a rank, cells as 0F0 0I0 0W0 0B0\n";
}

int run_schedule(const Arguments& a) {
  a.at_most_words(1);
  if (a.words().empty()) {
    if (a.has("--stages") || a.has("--microbatches"))
      throw InvalidInput(
          "sextant schedule: a kind is missing: sextant schedule 1f1b --stages 4 --microbatches 8 ('sextant "
          "schedule' lists the kinds)",
          ExitCode::kUsage);
    list_kinds();
    return 0;
  }
  const std::string& id = a.words()[0];
  if (!is_file(id))
    for (const char* needed : {"--stages", "--microbatches"})
      if (!a.has(needed))
        throw InvalidInput(str("sextant schedule: ", needed, " is missing: sextant schedule ", printable(id, 40),
                               " --stages 4 --microbatches 8"),
                           ExitCode::kUsage);
  ScheduleShape shape{static_cast<int>(a.integer("--stages", 0, 1, kMostRanks)),
                      static_cast<int>(a.integer("--microbatches", 0, 1, kMostMicrobatches)),
                      static_cast<int>(a.integer("--virtual", 0, 1, kMostRanks)),
                      static_cast<int>(a.integer("--group", 0, 1, kMostMicrobatches))};
  if (const auto live = a.value("--most-live")) shape.most_live = read_counts(*live);
  const std::array<Seconds, 3> times = read_times(a.value("--times").value_or("1,1,1"));
  const Seconds latency{a.number("--latency", 0, 0, 1e9)};
  const int width = columns(a);
  require_outputs(a, {"--json", "--csv", "--svg", "--trace"},
                  is_file(id) ? std::vector{id.substr(4)} : std::vector<std::string>{});
  if (!is_file(id) &&
      std::int64_t{shape.num_ranks} * shape.num_microbatches * std::max(1, shape.virtual_stages) > kMostActions)
    throw InvalidInput(str("sextant schedule: ", shape.num_ranks, " ranks x ", shape.num_microbatches,
                           " microbatches x ", std::max(1, shape.virtual_stages), " chunks are more than ",
                           kMostActions, " passes; use fewer microbatches: what repeats shows in a few"),
                       ExitCode::kUsage);

  const Schedule schedule = read_schedule(id, shape);
  const Program program = build_program(schedule);
  const Examination examination = require_sound_schedule(program, id);
  const VirtualRun run = run_virtually(program, equal_prices(program, times, latency));
  const RunReport r = report(program, run);

  const std::string title =
      str(id, ": ", schedule.num_ranks, schedule.num_ranks == 1 ? " rank, " : " ranks, ", schedule.num_microbatches,
          schedule.num_microbatches == 1 ? " microbatch" : " microbatches",
          schedule.num_stages > schedule.num_ranks ? str(", ", schedule.num_stages, " stages") : "",
          "; a rank's share takes F ", number(times[0].value), ", I ", number(times[1].value), ", W ",
          number(times[2].value), latency.value > 0 ? ", a message " + number(latency.value) : "");
  if (a.has("--svg") || a.has("--trace")) {
    const Timeline timeline = timeline_of(program, run);
    write_output(a, "--svg", gantt_svg(timeline, title));
    write_output(a, "--trace", to_chrome_trace(timeline));
  }
  write_output(a, "--csv", to_csv(schedule));
  write_json(a, to_value(schedule, program, run, r, examination));
  // With data on standard output nothing else goes there.
  if (a.value("--json") == "" || a.value("--csv") == "") return 0;
  if (a.has("--print-program")) {
    std::cout << to_string(program);
    return 0;
  }
  std::cout << title << "\n\n"
            << gantt_text(timeline_of(program, run),
                          {width, a.has("--colour") || (isatty(STDOUT_FILENO) != 0 && !a.has("--plain"))});
  print_numbers(std::cout, program, r, examination);
  return 0;
}

}  // namespace

const Command schedule = {
    "schedule",
    "[KIND --stages P --microbatches M]",
    "Draws, checks and times a pipeline schedule; lists the kinds without one.",
    {{"--stages", "P", "pipeline ranks; csv:FILE has its own"},
     {"--microbatches", "M", "of a step; csv:FILE has its own"},
     {"--virtual", "V", "stages a rank (interleaved, bfs: 2 if left out)"},
     {"--group", "G", "interleaved: microbatches that a chunk takes in turn (P if left out)"},
     {"--most-live", "N,N,...", "zb-capped: microbatches that each rank may hold (P if left out)"},
     {"--times", "F,I,W", "of a rank's share of the model, for one microbatch: 1,1,1 if left out"},
     {"--latency", "C", "of a message between ranks: 0 if left out"},
     {"--json", "[=FILE]", "all numbers and lists as JSON"},
     {"--csv", "[=FILE]", "the lists in PyTorch's notation"},
     {"--svg", "FILE", "a picture"},
     {"--trace", "FILE", "for chrome://tracing and ui.perfetto.dev"},
     {"--width", "N", "columns of the picture in the terminal, 80 to 200"},
     {"--colour", "", "colours even where the output is no terminal"},
     {"--plain", "", "letters even where it is one"},
     {"--print-program", "", "the instructions of every rank instead of the picture"}},
    "Letters: F forward, B backward, I and W its two halves (gradients of input and of weights); the number is the\n"
    "microbatch; small letters are a rank's second, fourth ... chunk.\n\n"
    "Examples:\n"
    "  sextant schedule 1f1b --stages 4 --microbatches 8\n"
    "  sextant schedule zb-v --stages 4 --microbatches 8 --times 1,1.2,0.8 --latency 0.1\n"
    "  sextant schedule zb-capped --stages 4 --microbatches 24 --most-live 16,12,12,10\n"
    "  sextant schedule interleaved --stages 4 --microbatches 8 --virtual 2 --csv\n",
    run_schedule};

}  // namespace sextant::cli
