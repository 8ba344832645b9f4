#include <algorithm>
#include <array>

#include "sextant/schedule/schedule.h"

namespace sextant {
namespace {

// The lists are made for enough microbatches that every part of the pattern is there; those too many are left out.
std::vector<Action> zb_v_actions(const ScheduleShape& shape, int rank) {
  const int num_ranks = shape.num_ranks, made = std::max(2 * num_ranks - 1, shape.num_microbatches);
  const std::array<int, 2> stages{rank, 2 * num_ranks - 1 - rank};
  enum Chunk { kDown, kUp };  // the way from stage 0 to the last rank, and the way back
  int next[2][3] = {};        // [chunk][F, I, W]: the next microbatch
  std::vector<Action> out;
  const auto act = [&](Chunk chunk, ActionKind kind) {
    const int m = next[chunk][static_cast<int>(kind)]++;
    if (m < shape.num_microbatches) out.push_back({static_cast<std::int16_t>(stages[chunk]), kind, m});
  };
  const auto left = [&](Chunk chunk, ActionKind kind) { return next[chunk][static_cast<int>(kind)] < made; };
  using enum ActionKind;
  for (int i = 0; i < 2 * (num_ranks - rank) - 1; ++i) act(kDown, kF);
  for (int i = 0; i < rank; ++i) act(kUp, kF), act(kDown, kF);
  for (int i = 0; i < num_ranks - rank; ++i) act(kUp, kF), act(kUp, kI), act(kUp, kW);
  while (left(kUp, kF)) {
    if (left(kDown, kF)) act(kDown, kF);
    act(kDown, kI), act(kDown, kW), act(kUp, kF), act(kUp, kI), act(kUp, kW);
  }
  for (int i = 0; i < rank; ++i) act(kDown, kI), act(kUp, kI);
  for (int i = 0; i < num_ranks - rank; ++i) act(kDown, kI), act(kDown, kW);
  while (left(kUp, kW)) act(kUp, kW);
  while (left(kDown, kW)) act(kDown, kW);
  return out;
}

}  // namespace

ScheduleKind zb_v_schedule() {
  return {.id = "zb-v",
          .summary = "two chunks a rank in a V, weight gradients apart; no bubble at 1f1b's memory (Qi et al. 2024)",
          .stages = StageMap::kVee,
          .least_virtual = 2,
          .most_virtual = 2,
          .actions = zb_v_actions};
}

}  // namespace sextant
