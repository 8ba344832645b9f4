#include "sextant/schedule/schedule.h"

namespace sextant {

// Huang et al. 2019. Backward passes run in the order of the microbatches too, so that sums have one order.
ScheduleKind gpipe_schedule() {
  return {.id = "gpipe",
          .summary = "all forward passes, then all backward passes; keeps every microbatch (Huang et al. 2019)",
          .actions = [](const ScheduleShape& shape, int rank) {
            std::vector<Action> out;
            for (const ActionKind kind : {ActionKind::kF, ActionKind::kB})
              for (int m = 0; m < shape.num_microbatches; ++m)
                out.push_back({static_cast<std::int16_t>(rank), kind, m});
            return out;
          }};
}

}  // namespace sextant
