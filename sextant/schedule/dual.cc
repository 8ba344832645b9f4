#include "sextant/schedule/dual.h"

#include <array>

namespace sextant {

std::vector<Action> dual_actions(int rank, int num_ranks, int num_microbatches, DualChunk first, DualChunk second) {
  const std::array<DualChunk, 2> chunks{first, second};
  std::vector<Action> out, waiting;  // waiting: weight gradients that were put off
  std::size_t oldest = 0;
  std::int32_t pairs = 0;
  int next_f[2] = {}, next_b[2] = {};
  const auto action = [&](int c, ActionKind kind, int microbatch) {
    const DualChunk& chunk = chunks[static_cast<std::size_t>(c)];
    return Action{chunk.stage, kind, microbatch, chunk.mirrored};
  };
  const auto forward = [&](int c) { out.push_back(action(c, ActionKind::kF, next_f[c]++)); };
  const auto backward = [&](int c, bool weights_later) {
    const int m = next_b[c]++;
    out.push_back(action(c, weights_later ? ActionKind::kI : ActionKind::kB, m));
    if (weights_later) waiting.push_back(action(c, ActionKind::kW, m));
  };
  const auto weights = [&] { out.push_back(waiting[oldest++]); };
  const auto overlapped = [&](int f, int b) {
    forward(f), backward(b, false);
    out[out.size() - 2].pair = out[out.size() - 1].pair = pairs++;
  };

  const int to_middle = num_ranks - 1 - rank;
  for (int i = 0; i < 2 * to_middle; ++i) forward(0);
  for (int i = 0; i <= rank; ++i) forward(0), forward(1);
  for (int i = 0; i < to_middle; ++i) backward(1, true), weights(), forward(1);
  for (int i = 0; i < num_microbatches - 2 * num_ranks + rank + 1; ++i) {
    if (i == 0 && to_middle == 0)
      forward(0), backward(1, false);  // where the ways meet, the pair's backward pass needs its forward pass's sequel
    else
      overlapped(0, 1);
    overlapped(1, 0);
  }
  for (int i = 0; i < to_middle; ++i) backward(1, false), overlapped(1, 0);
  // From the middle on weight gradients are put off; a rank of odd number starts one backward pass earlier.
  const int half = (rank + 1) / 2;
  for (int i = 0; i <= rank; ++i) {
    backward(1, i > half || (i == half && rank % 2 == 1));
    backward(0, i >= half);
  }
  for (int i = 0; i < to_middle; ++i) weights(), backward(0, true);
  while (oldest < waiting.size()) weights();
  return out;
}

}  // namespace sextant
