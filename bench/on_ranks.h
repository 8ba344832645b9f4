#pragma once
// Runs an operation on ranks-as-threads under Google Benchmark: the first rank keeps the time, the others follow it
// round by round until it says stop.
#include <benchmark/benchmark.h>

#include "sextant/runtime/comm/communicator.h"

namespace sextant {

template <class F>
void follow_first_rank(benchmark::State& state, Communicator& world, const F& operation) {
  double go = 1;
  const auto agree = [&] { world.broadcast({&go, 1, DType::kF64}, 0).wait(); };
  if (world.rank() == 0) {
    for (auto _ : state) {
      agree();
      operation();
    }
    go = 0;
    agree();
    return;
  }
  for (agree(); go != 0; agree()) operation();
}

}  // namespace sextant
