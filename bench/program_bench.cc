// How fast are schedules made, programs built, checked and run in virtual time?
//   build/dev/bin/program_bench
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "sextant/base/errors.h"
#include "sextant/program/examine.h"
#include "sextant/sim/virtual_run.h"

namespace sextant {
namespace {

// Every fixed schedule at 64 ranks and 1024 microbatches.
void make(benchmark::State& state, const ScheduleKind& kind) {
  for (auto _ : state) benchmark::DoNotOptimize(make_schedule(kind, {64, 1024}));
}

std::int64_t instructions(const Program& program) {
  std::int64_t n = 0;
  for (const RankProgram& rank : program.by_pp) n += static_cast<std::int64_t>(rank.code.size());
  return n;
}

double resident_peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

Program program_of(const benchmark::State& state) {
  const ScheduleShape shape{static_cast<int>(state.range(0)), static_cast<int>(state.range(1))};
  return build_program(make_schedule(find_schedule("1f1b"), shape), static_cast<int>(state.range(2)));
}

void build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(program_of(state));
}

void check_and_run(benchmark::State& state, const Program& program) {
  const Prices prices = equal_prices(program, {Seconds{1}, {1}, {1}});
  for (auto _ : state) {
    require_sound(program);
    benchmark::DoNotOptimize(run_virtually(program, prices));
  }
  state.counters["instructions"] = static_cast<double>(instructions(program));
  state.counters["resident_peak_MB"] = resident_peak_mb();
}

void check_sized(benchmark::State& state) { check_and_run(state, program_of(state)); }

void virtual_time(benchmark::State& state) {
  const Program program = program_of(state);
  const Prices prices = equal_prices(program, {Seconds{1}, {1}, {1}});
  for (auto _ : state) benchmark::DoNotOptimize(run_virtually(program, prices));
  state.counters["instructions/s"] =
      benchmark::Counter(static_cast<double>(instructions(program)), benchmark::Counter::kIsIterationInvariantRate);
}

// A published model as it was trained: Llama 3.1 405B over tp 8 (sequence parallel), pp 16, interleaved; every layer
// lowered for its place.
Plan plan_405b() {
  Plan plan;
  plan.tp = 8, plan.sequence_parallel = true, plan.pp = 16, plan.dp_shard = 128, plan.zero = 2;
  plan.schedule = "interleaved", plan.virtual_stages = 8, plan.num_microbatches = 128;
  plan.bucket = {25'000'000};
  return plan;
}

void build_405b(benchmark::State& state) {
  const Plan plan = plan_405b();
  const Model model = build_model(find_model("llama3.1-405b"), sizes_of(plan, {8192, 128 * 128, DType::kF32}));
  for (auto _ : state) benchmark::DoNotOptimize(build_program(model, plan));
}

void check_405b(benchmark::State& state) {
  const Plan plan = plan_405b();
  const Model model = build_model(find_model("llama3.1-405b"), sizes_of(plan, {8192, 128 * 128, DType::kF32}));
  check_and_run(state, build_program(model, plan));
}
BENCHMARK(build_405b)->Unit(benchmark::kMillisecond);
BENCHMARK(check_405b)->Unit(benchmark::kMillisecond);

// Coordinates, microbatches, units of a stage.
#define SIZES Args({16, 128, 8})->Args({64, 1024, 2})->Unit(benchmark::kMillisecond)
BENCHMARK(build)->SIZES;
BENCHMARK(check_sized)->SIZES;
BENCHMARK(virtual_time)->SIZES;

}  // namespace
}  // namespace sextant

int main(int argc, char** argv) {
  for (const sextant::ScheduleKind& kind : sextant::schedule_kinds())
    benchmark::RegisterBenchmark(("schedule/" + kind.id).c_str(), sextant::make, kind)->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
