#include "sextant/schedule/zero_bubble.h"

#include <algorithm>

namespace sextant {

std::vector<Action> zero_bubble_actions(int rank, int num_microbatches, int warmup, int pending) {
  std::vector<Action> out;
  const auto stage = static_cast<std::int16_t>(rank);
  int f = 0, w = 0;
  for (; f < std::min(num_microbatches, warmup); ++f) out.push_back({stage, ActionKind::kF, f});
  for (int b = 0; b < num_microbatches; ++b) {
    out.push_back({stage, ActionKind::kI, b});
    if (b + 1 - w > pending) out.push_back({stage, ActionKind::kW, w++});
    if (f < num_microbatches) out.push_back({stage, ActionKind::kF, f++});
  }
  for (; w < num_microbatches; ++w) out.push_back({stage, ActionKind::kW, w});
  return out;
}

}  // namespace sextant
