#include "sextant/trace/timeline.h"

#include <algorithm>
#include <limits>
#include <map>

namespace sextant {

std::string_view name_of(Stream stream) {
  constexpr std::string_view names[] = {"compute", "messages", "collectives"};
  return names[static_cast<std::size_t>(stream)];
}

Timeline join(const std::vector<Timeline>& parts) {
  Timeline out;
  double first = std::numeric_limits<double>::max();
  for (const Timeline& part : parts)
    for (const Event& e : part.events) first = std::min(first, e.start.value);
  std::map<std::int64_t, int> senders, takers;
  for (const Timeline& part : parts)
    for (const Event& e : part.events) {
      if (e.message >= 0)
        (e.kind == EventKind::kTransfer ? senders : takers)[e.message] = static_cast<int>(out.events.size());
      out.events.push_back(e);
      out.events.back().start.value -= first, out.events.back().end.value -= first;
    }
  for (const auto& [message, from] : senders)
    if (const auto to = takers.find(message); to != takers.end()) out.flows.push_back({from, to->second});
  return out;
}

std::vector<std::pair<std::string, Seconds>> total_by_what(const Timeline& timeline) {
  std::map<std::string, Seconds> sums;
  for (const Event& e : timeline.events)
    if (!holds_others(e.kind) && e.stream == Stream::kCompute) sums[e.what] += e.end - e.start;
  std::vector<std::pair<std::string, Seconds>> out(sums.begin(), sums.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

}  // namespace sextant
