// How fast is a whole training step, as a share of the FMA peak measured in the same run? AdamW and clipping included.
//   build/dev/bin/step_bench --benchmark_repetitions=7
#include <benchmark/benchmark.h>

#include "bench/on_ranks.h"
#include "sextant/runtime/comm/threads.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant {
namespace {

void run_steps(benchmark::State& state, const std::string& model_name, std::int64_t batch, std::int64_t sequence,
               int ranks, int threads) {
  RunConfig config;
  config.model = find_model(model_name);
  config.workload = {sequence, batch, DType::kF32};
  config.plan.dp_shard = ranks;
  config.plan.microbatch_size = batch / ranks;
  config.plan.bucket = {25'000'000};
  const Model model = build_model(config.model, sizes_of(config.plan, config.workload));
  const Program program = build_program(model, config.plan);
  const KernelTable kernels = builtin_kernels();
  const SampleSource source = [&](std::int64_t sample, const SampleView& view) {
    fill_causal(sample, view);
    for (std::size_t s = 0; s < view.ids.size(); ++s)
      view.ids[s] = view.labels[s] =
          static_cast<std::int32_t>((sample * 977 + static_cast<std::int64_t>(s) * 131) % config.model.vocabulary);
  };
  run_threads(ranks, [&](Communicator& world) {
    Executor executor(program, kernels, world, {.threads = threads, .spin = 20000, .seed = 1});
    executor.initialise();
    fill_step(executor, config, source, 0, world.rank());
    for (int i = 0; i < 2; ++i) executor.step(1e-4);
    follow_first_rank(state, world, [&] { executor.step(1e-4); });
  });
  const double peak = measured_peak_flops(ranks * threads);
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(batch * sequence * state.iterations()), benchmark::Counter::kIsRate);
  state.counters["share_of_peak"] = benchmark::Counter(
      model_flops(program) * static_cast<double>(state.iterations()) / peak, benchmark::Counter::kIsRate);
  state.counters["peak_GF/s"] = peak / 1e9;
}

BENCHMARK_CAPTURE(run_steps, gpt2_124m_B4_T64_1rank_2threads, "gpt2", 4, 64, 1, 2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MinTime(3);
BENCHMARK_CAPTURE(run_steps, gpt2_124m_B4_T64_1rank_1thread, "gpt2", 4, 64, 1, 1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MinTime(3);
BENCHMARK_CAPTURE(run_steps, gpt2_124m_B4_T64_2ranks_1thread, "gpt2", 4, 64, 2, 1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MinTime(3);

}  // namespace
}  // namespace sextant

BENCHMARK_MAIN();
