#include <algorithm>

#include "sextant/schedule/schedule.h"

namespace sextant {

// 1F1B that warms up twice as far: a message has a round trip's time to travel before it is missed, for up to twice as
// many microbatches kept. Laid into sextant/schedule/ this file is `sextant schedule 1f1b-eager` and
// `plan.schedule = "1f1b-eager"`, with no other line changed.
ScheduleKind eager_one_f_one_b_schedule() {
  return {.id = "1f1b-eager",
          .summary = "1f1b that hides a message's latency behind twice the warm-up",
          .actions = [](const ScheduleShape& shape, int rank) {
            std::vector<Action> out;
            const auto stage = static_cast<std::int16_t>(rank);
            const int warmup = std::min(shape.num_microbatches, 2 * (shape.num_ranks - 1 - rank));
            for (int m = 0; m < warmup; ++m) out.push_back({stage, ActionKind::kF, m});
            for (int m = 0; m < shape.num_microbatches; ++m) {
              if (m + warmup < shape.num_microbatches) out.push_back({stage, ActionKind::kF, m + warmup});
              out.push_back({stage, ActionKind::kB, m});
            }
            return out;
          }};
}

}  // namespace sextant
