// How fast are plans priced, searched and simulated?
//   build/dev/bin/planner_bench
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "sextant/planner/planner.h"

namespace sextant {
namespace {

Request request(const char* model, int devices, std::int64_t batch) {
  return {find_model(model), {8192, batch, DType::kBf16}, find_cluster("h100-dgx"), devices};
}

// Closed forms of one plan after the other; items are plans.
void price(benchmark::State& state, const Request& r) {
  const Space space = space_of(r);
  const Estimator estimator(r, space);
  std::vector<Candidate> candidates;
  for (const int tp : space.tp)
    for (const int pp : space.pp)
      for (const int v : {1, 2, 4})
        for (const int zero : space.zero) {
          if (r.devices % (tp * pp) != 0 || pp * v > r.model.layers) continue;
          Candidate c;
          c.dp = static_cast<int>(r.devices / (tp * pp)), c.tp = static_cast<int>(tp), c.pp = static_cast<int>(pp),
          c.virtual_stages = static_cast<int>(v), c.zero = static_cast<int>(zero), c.schedule = v > 1 ? 1 : 0,
          c.num_microbatches = 16;
          candidates.push_back(c);
        }
  std::int64_t priced = 0;
  for (auto _ : state)
    for (Candidate& c : candidates) {
      benchmark::DoNotOptimize(estimator.price(c));
      ++priced;
    }
  state.SetItemsProcessed(priced);
}

void tables(benchmark::State& state, const Request& r) {
  const Space space = space_of(r);
  for (auto _ : state) benchmark::DoNotOptimize(Estimator(r, space));
}

void answer(benchmark::State& state, const Request& r) {
  std::int64_t simulated = 0;
  for (auto _ : state) {
    const Answer found = search(r, space_of(r), {.ranked = 0});
    simulated = found.counts.simulated;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["simulated"] = static_cast<double>(simulated);
  state.counters["resident_peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1000;
}

void simulate(benchmark::State& state, const Request& r) {
  const Answer found = search(r, space_of(r), {.ranked = 0});
  for (auto _ : state) benchmark::DoNotOptimize(simulate_plan(r, found.plans[0].plan));
}

const Request kSmall = request("llama3.1-8b", 64, 512), kLarge = request("llama3.1-405b", 16384, 2048);
BENCHMARK_CAPTURE(price, llama_8b_on_64, kSmall)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(price, llama_405b_on_16384, kLarge)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(tables, llama_8b_on_64, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(tables, llama_405b_on_16384, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(answer, llama_8b_on_64, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(answer, llama_405b_on_16384, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, llama_405b_on_16384, kLarge)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sextant

BENCHMARK_MAIN();
