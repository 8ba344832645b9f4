#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "sextant/base/value.h"
#include "sextant/trace/timeline.h"

namespace sextant {
namespace {

// Times are whole nanoseconds, so that what touches in the timeline touches in the trace.
std::int64_t nanoseconds(Seconds s) { return std::llround(s.value * 1e9); }

std::string microseconds(std::int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%s%lld.%03lld", ns < 0 ? "-" : "", static_cast<long long>(std::llabs(ns) / 1000),
                static_cast<long long>(std::llabs(ns) % 1000));
  return text;
}

// Threads of one stream: an event goes on the first where it lies behind, or within, what is open there.
class Lanes {
 public:
  int place(std::int64_t start, std::int64_t end) {
    for (std::size_t lane = 0; lane < open_.size(); ++lane) {
      std::vector<std::int64_t>& ends = open_[lane];
      while (!ends.empty() && ends.back() <= start) ends.pop_back();
      if (!ends.empty() && ends.back() < end) continue;
      ends.push_back(end);
      return static_cast<int>(lane);
    }
    open_.push_back({end});
    return static_cast<int>(open_.size()) - 1;
  }

 private:
  std::vector<std::vector<std::int64_t>> open_;  // ends of what is open, the innermost last
};

constexpr int kThreadsOfStream = 1000;

}  // namespace

std::string to_chrome_trace(const Timeline& timeline) {
  const std::vector<Event>& events = timeline.events;
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // What holds another comes in front of it.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::int64_t x = nanoseconds(events[a].start), y = nanoseconds(events[b].start);
    return x != y ? x < y : nanoseconds(events[a].end) > nanoseconds(events[b].end);
  });
  std::map<std::pair<int, Stream>, Lanes> lanes;
  std::map<std::pair<int, int>, std::string> threads;
  std::vector<int> thread(events.size());
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  bool first = true;
  const auto line = [&](const std::string& text) {
    if (!first) out += ",\n";
    out += text;
    first = false;
  };
  const auto place = [](int rank, int tid) {
    return "\"pid\":" + std::to_string(rank) + ",\"tid\":" + std::to_string(tid);
  };
  for (const std::size_t i : order) {
    const Event& e = events[i];
    const std::int64_t start = nanoseconds(e.start), end = std::max(start, nanoseconds(e.end));
    const int lane = lanes[{e.rank, e.stream}].place(start, end);
    thread[i] = static_cast<int>(e.stream) * kThreadsOfStream + lane;
    threads.try_emplace({e.rank, thread[i]},
                        std::string(name_of(e.stream)) + (lane > 0 ? " " + std::to_string(lane + 1) : ""));
    std::string text = "{\"ph\":\"X\",\"name\":" + to_json(Value(e.what)) + "," + place(e.rank, thread[i]) +
                       ",\"ts\":" + microseconds(start) + ",\"dur\":" + microseconds(end - start);
    if (e.bytes.value > 0) text += ",\"args\":{\"bytes\":" + std::to_string(e.bytes.value) + "}";
    line(text + "}");
  }
  for (std::size_t f = 0; f < timeline.flows.size(); ++f) {
    const auto from = static_cast<std::size_t>(timeline.flows[f].from),
               to = static_cast<std::size_t>(timeline.flows[f].to);
    const std::string common = ",\"cat\":\"message\",\"name\":\"message\",\"id\":" + std::to_string(f + 1) + ",";
    line("{\"ph\":\"s\"" + common + place(events[from].rank, thread[from]) +
         ",\"ts\":" + microseconds(nanoseconds(events[from].start)) + "}");
    line("{\"ph\":\"f\",\"bp\":\"e\"" + common + place(events[to].rank, thread[to]) +
         ",\"ts\":" + microseconds(nanoseconds(events[to].start)) + "}");
  }
  for (const Count& c : timeline.counts)
    line("{\"ph\":\"C\",\"name\":" + to_json(Value(c.what)) + "," + place(c.rank, 0) +
         ",\"ts\":" + microseconds(nanoseconds(c.time)) + ",\"args\":{\"value\":" + to_json(Value(c.value)) + "}}");
  int last = -1;
  for (const auto& [at, name] : threads) {
    const auto [rank, tid] = at;
    if (rank != last)
      line("{\"ph\":\"M\",\"name\":\"process_name\"," + place(rank, 0) + ",\"args\":{\"name\":\"rank " +
           std::to_string(rank) + "\"}}");
    last = rank;
    line("{\"ph\":\"M\",\"name\":\"thread_name\"," + place(rank, tid) + ",\"args\":{\"name\":" + to_json(Value(name)) +
         "}}");
  }
  out += "\n]}\n";
  return out;
}

}  // namespace sextant
