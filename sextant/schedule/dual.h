#pragma once
#include "sextant/schedule/schedule.h"

namespace sextant {

/// A chunk of layers of a rank that takes part in DualPipe's exchange.
struct DualChunk {
  std::int16_t stage = 0;
  bool mirrored = false;
};

/// The eight steps of DualPipe (DeepSeek-V3, 2024) on one rank: microbatches of `first` run down to the middle of the
/// exchange and come back through `second`; in the middle part a forward pass of one and a backward pass of the other
/// are one overlapped pair.
///   rank, num_ranks    place on the way down, 0 .. num_ranks - 1; the last rank is where the ways meet
///   num_microbatches   of each chunk, >= 2 num_ranks for the full pattern
std::vector<Action> dual_actions(int rank, int num_ranks, int num_microbatches, DualChunk first, DualChunk second);

}  // namespace sextant
