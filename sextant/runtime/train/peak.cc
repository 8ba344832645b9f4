#include "sextant/runtime/kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "sextant/runtime/kernels/gemm.h"
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

double measured_bandwidth(int threads) {
  constexpr std::int64_t kFloats = std::int64_t{1} << 24;  // 64 MB each way for every thread
  Team team(threads);
  std::vector<std::vector<float>> from(static_cast<std::size_t>(threads)), to(from.size());
  team.run([&](int t) {
    from[static_cast<std::size_t>(t)].assign(kFloats, 1.0F);
    to[static_cast<std::size_t>(t)].assign(kFloats, 0.0F);
  });
  double best = 1e30;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    team.run([&](int t) {
      const auto at = static_cast<std::size_t>(t);
      std::memcpy(to[at].data(), from[at].data(), kFloats * sizeof(float));
    });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * sizeof(float) * kFloats * threads / best;
}

double measured_product_flops(int threads) {
  constexpr std::int64_t kSize = 1024;
  Team team(threads);
  const std::vector<float> x(kSize * kSize, 0.5F), w(kSize * kSize, 0.25F);
  std::vector<float> y(kSize * kSize);
  double best = 1e30;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    product_forward<float>(team, kSize, kSize, kSize, x.data(), w.data(), nullptr, y.data());
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * kSize * kSize * kSize / best;
}

}  // namespace sextant
