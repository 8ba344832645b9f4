#include <algorithm>

#include "sextant/base/str.h"
#include "sextant/schedule/dual.h"

namespace sextant {
namespace {

std::vector<std::string> dualpipe_violations(const ScheduleShape& shape) {
  std::vector<std::string> out;
  const int p = shape.num_ranks, m = shape.num_microbatches;
  if (p % 2 != 0)
    out.push_back(str("pipeline ranks = ", p, " is odd, and its two directions meet in the middle; use ",
                      p > 1 ? str(p - 1, " or ") : "", p + 1));
  if (m < 2 * p)
    out.push_back(str("microbatches = ", m, " is less than twice the ", p, " pipeline ranks; use at least ", 2 * p));
  else if (m % 2 != 0)
    out.push_back(
        str("microbatches = ", m, " is odd, and each direction takes half of them; use ", m - 1, " or ", m + 1));
  return out;
}

// Two pipelines, one from each end. Seen from its nearer end, a rank is where dual_actions has it.
std::vector<Action> dualpipe_actions(const ScheduleShape& shape, int rank) {
  const int other = shape.num_ranks - 1 - rank;
  const DualChunk own{static_cast<std::int16_t>(rank), false}, copy{static_cast<std::int16_t>(other), true};
  const bool near_start = rank < other;
  return dual_actions(std::min(rank, other), shape.num_ranks / 2, shape.num_microbatches / 2, near_start ? own : copy,
                      near_start ? copy : own);
}

}  // namespace

ScheduleKind dualpipe_schedule() {
  return {.id = "dualpipe",
          .summary =
              "two pipelines from both ends, forward and backward overlapped, two copies of the weights "
              "(DeepSeek-V3 2024)",
          .stages = StageMap::kMirrored,
          .violations = dualpipe_violations,
          .actions = dualpipe_actions};
}

}  // namespace sextant
