// What do splits cost on this machine? 2 ranks x 1 thread under each, against 1 rank x 2 threads, same work; and the
// bubble of pipelines on the wall against the one in virtual time, fed with the measured times of units.
//   build/dev/bin/splits [REPEATS]
// Runs alternate, so that what else the machine does meets all alike; medians of the repeats.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "sextant/runtime/comm/threads.h"
#include "sextant/runtime/train/trainer.h"
#include "sextant/sim/virtual_run.h"

namespace sextant {
namespace {

struct Case {
  std::string name;
  RunConfig config;
  std::vector<double> seconds;          // a step, by repeat
  std::vector<double> wall, virtually;  // bubble fractions
};

RunConfig config_of(std::int64_t batch, int ranks, Plan plan) {
  RunConfig c;
  c.model = find_model("gpt2");
  c.workload = {64, batch, DType::kF32};
  c.threads = 2 / ranks;
  plan.bucket = {plan.zero == 3 ? 0 : 25'000'000};
  plan.microbatch_size = batch / plan.data_ranks() / plan.num_microbatches;
  c.plan = plan;
  return c;
}

// A step's wall time; of a pipeline also its bubble fraction and the one in virtual time.
void measure(Case& c) {
  const Model model = build_model(c.config.model, sizes_of(c.config.plan, c.config.workload));
  const Program program = build_program(model, c.config.plan);
  static const KernelTable kernels = builtin_kernels();
  const SampleSource source = [&](std::int64_t sample, const SampleView& view) {
    fill_causal(sample, view);
    for (std::size_t s = 0; s < view.ids.size(); ++s)
      view.ids[s] = view.labels[s] =
          static_cast<std::int32_t>((sample * 977 + static_cast<std::int64_t>(s) * 131) % c.config.model.vocabulary);
  };
  std::vector<double> times;
  std::vector<Timeline> last(static_cast<std::size_t>(program.num_ranks()));
  run_threads(program.num_ranks(), [&](Communicator& world) {
    Executor executor(program, kernels, world, {.threads = c.config.threads, .spin = 20000, .seed = 1});
    executor.initialise();
    const Coordinates at = coordinates_of(world.rank() % program.mesh.num_ranks(), program.mesh);
    fill_step(executor, c.config, source, 0, at.dp_shard);
    for (int i = 0; i < 4; ++i) {
      const auto start = std::chrono::steady_clock::now();
      executor.step(1e-4);
      world.barrier("a step ends").wait();
      if (world.rank() == 0 && i > 0)
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    last[static_cast<std::size_t>(world.rank())] = executor.timeline();
  });
  std::sort(times.begin(), times.end());
  c.seconds.push_back(times[times.size() / 2]);
  if (program.by_pp.size() == 1) return;

  const Timeline step = join(last);
  c.wall.push_back(measured_bubble(step));
  c.virtually.push_back(report(program, run_virtually(program, measured_prices(program, step))).bubble_fraction);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

}  // namespace
}  // namespace sextant

int main(int argc, char** argv) {
  using namespace sextant;
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 7;
  std::vector<std::vector<Case>> groups(2);
  groups[0] = {{"1 rank x 2 threads, B4", config_of(4, 1, {}), {}, {}, {}},
               {"dp 2", config_of(4, 2, {.dp_shard = 2}), {}, {}, {}},
               {"zero 1", config_of(4, 2, {.dp_shard = 2, .zero = 1}), {}, {}, {}},
               {"zero 2", config_of(4, 2, {.dp_shard = 2, .zero = 2}), {}, {}, {}},
               {"zero 3", config_of(4, 2, {.dp_shard = 2, .zero = 3}), {}, {}, {}},
               {"tp 2 sp", config_of(4, 2, {.tp = 2, .sequence_parallel = true}), {}, {}, {}}};
  groups[1] = {
      {"1 rank x 2 threads, B16 in 16", config_of(16, 1, {.num_microbatches = 16}), {}, {}, {}},
      {"pp 2 1f1b, M 8", config_of(8, 2, {.pp = 2, .num_microbatches = 8}), {}, {}, {}},
      {"pp 2 1f1b, M 16", config_of(16, 2, {.pp = 2, .num_microbatches = 16}), {}, {}, {}},
      {"pp 2 zb-h1, M 16", config_of(16, 2, {.pp = 2, .schedule = "zb-h1", .num_microbatches = 16}), {}, {}, {}}};
  for (int r = 0; r < repeats; ++r)
    for (auto& group : groups)
      for (Case& c : group) {
        measure(c);
        std::fprintf(stderr, "%d %s %.4f s\n", r, c.name.c_str(), c.seconds.back());
      }
  for (const auto& group : groups) {
    const Case& base = group[0];
    const double tokens = static_cast<double>(base.config.workload.global_batch) / median(base.seconds);
    for (const Case& c : group) {
      const double own = static_cast<double>(c.config.workload.global_batch) / median(c.seconds);
      std::printf("%-32s %7.1f ms a step  %5.1f %% of one rank's speed", c.name.c_str(), 1e3 * median(c.seconds),
                  100 * own / tokens);
      if (!c.wall.empty())
        std::printf("  bubble on the wall %4.1f %%, in virtual time %4.1f %%", 100 * median(c.wall),
                    100 * median(c.virtually));
      std::printf("\n");
    }
  }
}
