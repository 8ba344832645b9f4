#include <algorithm>
#include <utility>

#include "sextant/schedule/schedule.h"

namespace sextant {
namespace {

using enum ActionKind;

// What a rank has done so far, and when: microbatches pass in order.
struct Progress {
  std::vector<int> f_end, i_end;
  std::size_t weights = 0;
};

bool ended(const std::vector<int>& ends, std::size_t microbatch, int now) {
  return microbatch < ends.size() && ends[microbatch] <= now;
}

// Forward passes in front of the first gradient: what is left when weight gradients of as many microbatches as there
// are ranks in front may wait, but as many as 1f1b has if there is room for them, and no more than the first gradient
// takes to come back (zb-h1's and zb-h2's with P and 2P - 1 microbatches).
std::size_t warmup(const ScheduleShape& shape, int rank) {
  const int behind = shape.num_ranks - rank, most = shape.most_live[static_cast<std::size_t>(rank)];
  return static_cast<std::size_t>(std::max(std::min(most, behind), std::min(2 * behind - 1, most - rank)));
}

// All ranks step by step, equal times. As in 1f1b a forward pass is due behind each gradient; if there is no room for
// it, weight gradients make some. They also fill what would be idle.
std::vector<Action> actions(const ScheduleShape& shape, int wanted) {
  const auto ranks = static_cast<std::size_t>(shape.num_ranks), M = static_cast<std::size_t>(shape.num_microbatches);
  std::vector<Progress> all(ranks);
  std::vector<Action> out;
  for (int now = 0; out.size() < 3 * M; ++now)
    for (std::size_t r = 0; r < ranks; ++r) {
      Progress& own = all[r];
      const std::size_t f = own.f_end.size(), i = own.i_end.size(), w = own.weights;
      const auto take = [&](ActionKind kind, std::size_t microbatch) {
        if (static_cast<int>(r) == wanted)
          out.push_back({static_cast<std::int16_t>(r), kind, static_cast<std::int32_t>(microbatch)});
      };
      const bool has_input = r == 0 || ended(all[r - 1].f_end, f, now),
                 has_gradient = ended(r + 1 == ranks ? own.f_end : all[r + 1].i_end, i, now),
                 is_due = f < M && f < i + warmup(shape, static_cast<int>(r)),
                 has_room = std::cmp_less(f - w, shape.most_live[r]);
      if (is_due && has_input && has_room)
        take(kF, f), own.f_end.push_back(now + 1);
      else if (is_due && !has_room && w < i)
        take(kW, own.weights++);
      else if (i < f && has_gradient)
        take(kI, i), own.i_end.push_back(now + 1);
      else if (w < i)
        take(kW, own.weights++);
    }
  return out;
}

}  // namespace

ScheduleKind zb_capped_schedule() {
  return {.id = "zb-capped",
          .summary = "zero bubble as far as the microbatches that each rank may hold let it; most_live says how many",
          .takes_most_live = true,
          .actions = actions};
}

}  // namespace sextant
