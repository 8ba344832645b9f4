#pragma once
// What happened when: the one type that the simulator and the runtime both write.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/units.h"

namespace sextant {

/// What a rank does at once with other things.
enum class Stream : std::uint8_t { kCompute, kMessages, kCollectives };
std::string_view name_of(Stream stream);
/// How an event is drawn.
enum class EventKind : std::uint8_t { kForward, kInputGradient, kWeightGradient, kBackward, kWait, kTransfer, kOther };

/// An action or a unit holds the events within it; all else is what is done.
constexpr bool holds_others(EventKind kind) {
  return kind == EventKind::kForward || kind == EventKind::kInputGradient || kind == EventKind::kWeightGradient ||
         kind == EventKind::kBackward;
}

struct Event {
  std::string what;  ///< "linear F", "REDUCE", "OPT_STEP", "2F3"
  Seconds start, end;
  Bytes bytes;  ///< received, for communication
  int rank = 0;
  Stream stream = Stream::kCompute;
  EventKind kind = EventKind::kOther;
  int microbatch = -1;        ///< of a schedule's action
  int chunk = 0;              ///< which of its rank's stages an action is of
  std::int64_t message = -1;  ///< number of a message that it sends (kTransfer) or takes (an action)
};

/// Something that an event hands to a later one: indices into Timeline::events.
struct Flow {
  int from = 0, to = 0;
};

/// A quantity of a rank from a moment on.
struct Count {
  std::string what;  ///< "live chunks"
  Seconds time;
  double value = 0;
  int rank = 0;
};

struct Timeline {
  std::vector<Event> events;  ///< those of one rank and stream in the order of their starts; one may lie within another
  std::vector<Flow> flows;
  std::vector<Count> counts;  ///< those of one rank and `what` in the order of time
};

/// Timelines of several ranks as one, with a flow from each event that sends a message to the one that takes it; times
/// from the first start on.
Timeline join(const std::vector<Timeline>& parts);

/// The events as bytes, times from `origin` on, for another process of the same program; and back.
std::vector<std::byte> pack(const std::vector<Event>& events, Seconds origin);
std::vector<Event> unpack(const std::vector<std::byte>& bytes);

/// Time of the computing stream by `what`, greatest first; not of what holds others.
std::vector<std::pair<std::string, Seconds>> total_by_what(const Timeline& timeline);

/// JSON for chrome://tracing and ui.perfetto.dev: a process for each rank, a thread for each stream (several where
/// events of a stream overlap without one holding the other), arrows for flows, a curve for
/// each count. Slices of a thread nest strictly.
std::string to_chrome_trace(const Timeline& timeline);

}  // namespace sextant
