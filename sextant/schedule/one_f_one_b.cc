#include <algorithm>

#include "sextant/schedule/schedule.h"

namespace sextant {

// PipeDream-Flush (Narayanan et al. 2021). Stage s holds at most P - s microbatches.
ScheduleKind one_f_one_b_schedule() {
  return {.id = "1f1b",
          .summary = "one forward, one backward; keeps at most P microbatches (Narayanan et al. 2021)",
          .actions = [](const ScheduleShape& shape, int rank) {
            std::vector<Action> out;
            const auto stage = static_cast<std::int16_t>(rank);
            // The last stage starts its backward pass at once, so it warms up with none; each earlier one with one
            // more.
            const int warmup = std::min(shape.num_microbatches, shape.num_ranks - 1 - rank);
            for (int m = 0; m < warmup; ++m) out.push_back({stage, ActionKind::kF, m});
            for (int m = 0; m < shape.num_microbatches; ++m) {
              if (m + warmup < shape.num_microbatches) out.push_back({stage, ActionKind::kF, m + warmup});
              out.push_back({stage, ActionKind::kB, m});
            }
            return out;
          }};
}

}  // namespace sextant
