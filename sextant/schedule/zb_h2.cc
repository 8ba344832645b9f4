#include "sextant/schedule/zero_bubble.h"

namespace sextant {

ScheduleKind zb_h2_schedule() {
  return {.id = "zb-h2",
          .summary = "no bubble between steps that need no barrier, twice the memory of 1f1b (Qi et al. 2023)",
          .actions = [](const ScheduleShape& shape, int rank) {
            return zero_bubble_actions(rank, shape.num_microbatches, 2 * (shape.num_ranks - rank) - 1, 2 * rank);
          }};
}

}  // namespace sextant
