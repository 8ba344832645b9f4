#pragma once
// What happened when: the one type that the simulator and the runtime both write.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/units.h"

namespace sextant {

struct Event {
  std::string what;  ///< "linear F", "REDUCE", "OPT_STEP"
  Seconds start, end;
  Bytes bytes;  ///< received, for communication
};

struct Timeline {
  std::vector<Event> events;
};

/// Time by `what`, greatest first.
std::vector<std::pair<std::string, Seconds>> total_by_what(const Timeline& timeline);

}  // namespace sextant
