#include "sextant/schedule/schedule.h"

namespace sextant {

// One microbatch at a time goes all the way there and back: model parallelism without a pipeline.
ScheduleKind naive_schedule() {
  return {.id = "naive",
          .summary = "one microbatch at a time; least memory, one rank busy at a time",
          .actions = [](const ScheduleShape& shape, int rank) {
            std::vector<Action> out;
            const auto stage = static_cast<std::int16_t>(rank);
            for (int m = 0; m < shape.num_microbatches; ++m) {
              out.push_back({stage, ActionKind::kF, m});
              out.push_back({stage, ActionKind::kB, m});
            }
            return out;
          }};
}

}  // namespace sextant
