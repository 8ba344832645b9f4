#include "sextant/schedule/zero_bubble.h"

namespace sextant {

ScheduleKind zb_h1_schedule() {
  return {.id = "zb-h1",
          .summary = "1f1b with weight gradients apart; a third of its bubble at its memory (Qi et al. 2023)",
          .actions = [](const ScheduleShape& shape, int rank) {
            return zero_bubble_actions(rank, shape.num_microbatches, shape.num_ranks - rank, rank);
          }};
}

}  // namespace sextant
