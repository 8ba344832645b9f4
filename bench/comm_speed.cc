// All-reduce by size on both backends, beside the speed of memory (y += x on all ranks) in the same run.
//   build/dev/bin/comm_speed RANKS              ranks as threads
//   mpirun -n RANKS build/dev/bin/comm_speed    as processes; SEXTANT_RANKS_PER_NODE=1: by messages
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sextant/runtime/comm/mpi.h"
#include "sextant/runtime/comm/threads.h"

namespace sextant {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds of one round, the median of 9 batches of rounds; all ranks do as many as the first one asks for.
template <class F>
double timed(Communicator& world, const F& round) {
  round();
  double start = now();
  round();
  double rounds = world.rank() == 0 ? std::max(1.0, 0.03 / std::max(1e-7, now() - start)) : 0;
  world.broadcast({&rounds, 1, DType::kF64}, 0).wait();
  std::vector<double> times;
  for (int batch = 0; batch < 9; ++batch) {
    world.barrier().wait();
    start = now();
    for (int i = 0; i < static_cast<int>(rounds); ++i) round();
    times.push_back((now() - start) / static_cast<int>(rounds));
  }
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return times[4];
}

void measure(Communicator& world) {
  const int n = world.size();
  const bool speaks = world.rank() == 0;
  const Region region = world.memory({std::int64_t{1} << 27});
  auto* data = reinterpret_cast<float*>(region.data());
  for (std::int64_t i = 0; i < std::int64_t{1} << 25; ++i) data[i] = 1;
  if (speaks)
    std::printf("%d ranks, %d of them share memory\n%12s %12s %16s\n", n, world.ranks_here(), "bytes", "us",
                "memory GB/s");
  for (const std::int64_t bytes : {8, 1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26}) {
    const double s = timed(world, [&] { world.all_reduce({data, bytes / 4, DType::kF32}, "all_reduce").wait(); });
    // Each element is read n times and written n times.
    if (speaks)
      std::printf("%12lld %12.2f %16.2f\n", static_cast<long long>(bytes), s * 1e6,
                  2e-9 * n * static_cast<double>(bytes) / s);
  }
  constexpr std::int64_t kFloats = std::int64_t{1} << 24;
  const double add = timed(world, [&] {
    float *y = data, *x = data + kFloats;
    for (std::int64_t i = 0; i < kFloats; ++i) y[i] += 1e-9F * x[i];
    world.barrier().wait();
  });
  if (speaks) std::printf("%12s %12.2f %16.2f\n", "y += x", add * 1e6, 12e-9 * n * kFloats / add);
  const double barrier = timed(world, [&] { world.barrier("barrier").wait(); });
  if (speaks) std::printf("%12s %12.2f\n", "barrier", barrier * 1e6);
}

}  // namespace
}  // namespace sextant

int main(int argc, char** argv) {
  if (sextant::mpi_process())
    sextant::run_mpi(sextant::measure);
  else
    sextant::run_threads(argc > 1 ? std::atoi(argv[1]) : 2, sextant::measure);
}
