#include "sextant/base/str.h"
#include "sextant/schedule/dual.h"

namespace sextant {

// DualPipe folded at its middle: one copy of the weights.
ScheduleKind dualpipe_v_schedule() {
  return {.id = "dualpipe-v",
          .summary = "dualpipe cut in half: forward and backward overlapped, one copy of the weights (DeepSeek 2025)",
          .stages = StageMap::kVee,
          .least_virtual = 2,
          .most_virtual = 2,
          .violations = [](const ScheduleShape& shape) -> std::vector<std::string> {
            if (shape.num_microbatches >= 2 * shape.num_ranks) return {};
            return {str("microbatches = ", shape.num_microbatches, " is less than twice the ", shape.num_ranks,
                        " pipeline ranks; use at least ", 2 * shape.num_ranks)};
          },
          .actions =
              [](const ScheduleShape& shape, int rank) {
                return dual_actions(rank, shape.num_ranks, shape.num_microbatches, {static_cast<std::int16_t>(rank)},
                                    {static_cast<std::int16_t>(2 * shape.num_ranks - 1 - rank)});
              }};
}

}  // namespace sextant
