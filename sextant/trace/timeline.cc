#include "sextant/trace/timeline.h"

#include <algorithm>
#include <map>

namespace sextant {

std::string_view name_of(Stream stream) {
  constexpr std::string_view names[] = {"compute", "messages", "collectives"};
  return names[static_cast<std::size_t>(stream)];
}

std::vector<std::pair<std::string, Seconds>> total_by_what(const Timeline& timeline) {
  std::map<std::string, Seconds> sums;
  for (const Event& e : timeline.events) sums[e.what] += e.end - e.start;
  std::vector<std::pair<std::string, Seconds>> out(sums.begin(), sums.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

}  // namespace sextant
