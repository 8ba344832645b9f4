// How fast is an all-reduce between threads, against the speed of memory (y += x) measured in the same run? And do many
// ranks on few cores collapse?
//   build/dev/bin/comm_bench
#include <benchmark/benchmark.h>

#include <vector>

#include "bench/on_ranks.h"
#include "sextant/runtime/comm/threads.h"

namespace sextant {
namespace {

template <class F>
void on_ranks(benchmark::State& state, int ranks, std::int64_t count, const F& operation) {
  run_threads(ranks, [&](Communicator& world) {
    std::vector<float> data(static_cast<std::size_t>(count), 1.0F);
    follow_first_rank(state, world, [&] { operation(world, std::span(data)); });
  });
}

// Memory moved by an all-reduce of n ranks: each element is read n times and written n times.
void all_reduce(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const std::int64_t count = state.range(1) / 4;
  on_ranks(state, ranks, count, [](Communicator& c, std::span<float> data) { c.all_reduce(payload(data)).wait(); });
  state.counters["memory_B/s"] = benchmark::Counter(static_cast<double>(2 * ranks * count * 4 * state.iterations()),
                                                    benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}
BENCHMARK(all_reduce)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4, 8}, {8, 1 << 10, 1 << 18, 1 << 22, 1 << 26}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void barrier(benchmark::State& state) {
  on_ranks(state, static_cast<int>(state.range(0)), 0, [](Communicator& c, std::span<float>) { c.barrier().wait(); });
}
BENCHMARK(barrier)->ArgName("ranks")->Arg(2)->Arg(4)->Arg(8)->UseRealTime()->Unit(benchmark::kMicrosecond);

// The yardstick: two threads adding one 64 MB array to another.
void memory_add(benchmark::State& state) {
  on_ranks(state, 2, 1 << 24, [](Communicator&, std::span<float> data) {
    thread_local std::vector<float> other(1 << 24, 1.0F);
    float *y = data.data(), *x = other.data();
    for (std::int64_t i = 0; i < 1 << 24; ++i) y[i] += x[i];
    benchmark::DoNotOptimize(y);
  });
  state.counters["memory_B/s"] = benchmark::Counter(static_cast<double>(2 * 3 * (1 << 26) * state.iterations()),
                                                    benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}
BENCHMARK(memory_add)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sextant

BENCHMARK_MAIN();
