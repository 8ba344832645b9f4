#include "sextant/trace/timeline.h"

#include <algorithm>
#include <cstring>
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

namespace {

// What an event is but for its name.
struct PackedEvent {
  double start, end;
  std::int64_t bytes, message;
  std::int32_t rank, microbatch, chunk, name_length;
  Stream stream;
  EventKind kind;
};

}  // namespace

std::vector<std::byte> pack(const std::vector<Event>& events, Seconds origin) {
  std::vector<std::byte> out;
  const auto put = [&](const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size);
  };
  for (const Event& e : events) {
    const PackedEvent packed{e.start.value - origin.value,
                             e.end.value - origin.value,
                             e.bytes.value,
                             e.message,
                             e.rank,
                             e.microbatch,
                             e.chunk,
                             static_cast<std::int32_t>(e.what.size()),
                             e.stream,
                             e.kind};
    put(&packed, sizeof packed);
    put(e.what.data(), e.what.size());
  }
  return out;
}

std::vector<Event> unpack(const std::vector<std::byte>& bytes) {
  std::vector<Event> out;
  for (std::size_t at = 0; at < bytes.size();) {
    PackedEvent packed;
    std::memcpy(&packed, bytes.data() + at, sizeof packed);
    at += sizeof packed;
    Event e{.start = {packed.start},
            .end = {packed.end},
            .bytes = {packed.bytes},
            .rank = packed.rank,
            .stream = packed.stream,
            .kind = packed.kind,
            .microbatch = packed.microbatch,
            .chunk = packed.chunk,
            .message = packed.message};
    e.what.assign(reinterpret_cast<const char*>(bytes.data()) + at, static_cast<std::size_t>(packed.name_length));
    at += e.what.size();
    out.push_back(std::move(e));
  }
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
