#include "sextant/runtime/kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "sextant/runtime/kernels/team.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant {

double measured_peak_flops(int threads) {
  Team team(threads);
  const auto timed = [&](std::int64_t rounds) {
    const auto start = std::chrono::steady_clock::now();
    team.run([&](int) { multiply_add_rounds(rounds); });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // The best of short runs spread over a fifth of a second: other work on the machine only ever makes one slower.
  double best = 1e30;
  timed(100000);
  for (int i = 0; i < 25; ++i) {
    best = std::min(best, timed(200000));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 200000.0 * kFlopsPerRound * threads / best;
}

}  // namespace sextant
