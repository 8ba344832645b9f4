#include "sextant/calibrate/calibrate.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <thread>

#include "cli/cli.h"
#include "cli/launch.h"
#include "sextant/base/atomic_file.h"
#include "sextant/runtime/comm/mpi.h"
#include "sextant/runtime/comm/threads.h"

namespace sextant::cli {
namespace {

int ranks_of(const Arguments& a) { return static_cast<int>(a.integer("--ranks", 1, 1, 256)); }

// All ranks as threads (`world` null), or one rank of a job.
int calibrate_here(const Arguments& a, Communicator* world) {
  a.at_most_words(0);
  require_outputs(a, {"--json", "--out"}, {});
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int ranks = world ? world->size() : ranks_of(a);
  const int threads = static_cast<int>(a.integer("--threads", std::max(1, cores / ranks), 1, 1024));
  const auto start = std::chrono::steady_clock::now();
  const bool first = !world || world->rank() == 0;
  const OnRanks on_ranks = [&](const std::function<void(Communicator&)>& body) {
    if (world)
      body(*world);
    else
      run_threads(ranks, body);
  };
  const Calibration c = sextant::calibrate(ranks, threads, on_ranks, [&](const std::string& what) {
    if (first) std::cerr << "measuring " << what << " ...\n";
  });
  if (!first) return 0;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<std::string> notes = {str("Measured by sextant calibrate --ranks ", ranks, world ? " --backend mpi" : "",
                                        " --threads ", threads, "; medians, +- half of the middle half.")};
  notes.insert(notes.end(), c.notes.begin(), c.notes.end());
  const std::string text = to_text(c.cluster, notes);
  write_output(a, "--out", text);
  Value v;
  v.set("ranks", ranks);
  v.set("threads", threads);
  v.set("flops_per_s", c.cluster.device.fp32);
  v.set("typical_flops_per_s", c.speed);
  v.set("memory_bytes_per_s", c.cluster.device.bandwidth);
  v.set("launch_s", c.cluster.device.launch.value);
  Value rates{Value::Object{}};
  for (const auto& [what, rate] : c.cluster.device.rates) rates.set(what, rate);
  v.set("kernels_per_s", std::move(rates));
  v.set("collective_start_s", c.cluster.device.call.value);
  v.set("collective_bytes_per_s", c.cluster.levels[0].bandwidth);
  v.set("drift", c.drift);
  v.set("seconds", seconds);
  write_json(a, v);
  if (!a.has("--out") && !a.has("--json")) std::cout << text;
  if (std::abs(c.drift) > 0.05)
    std::cerr << "note: the machine's speed changed by " << std::lround(100 * c.drift)
              << " % while it was measured; run it again when nothing else does\n";
  return 0;
}

int run_calibrate(const Arguments& a) {
  a.at_most_words(0);
  if (backend_of(a) == Backend::kThreads) return calibrate_here(a, nullptr);
  if (!mpi_process()) {
    if (!has_mpi()) run_mpi({});  // says why not
    return start_mpirun(a, ranks_of(a));
  }
  tell_launcher_up();
  int code = 0;
  run_mpi([&](Communicator& world) { code = calibrate_here(a, &world); }, {}, report_error);
  return code;
}

}  // namespace

const Command calibrate = {
    "calibrate",
    "[--ranks R] [--threads T] [--out FILE]",
    "Measures this machine and writes a cluster file, so that training steps can be predicted on it.",
    {{"--ranks", "R", "ranks that work at once (1)"},
     {"--backend", "KIND", "threads: of this process; mpi: processes, starts mpirun"},
     {"--threads", "T", "of each rank (cores / ranks)"},
     {"--out", "FILE", "the cluster file; standard output if left out"},
     {"--json", "[=FILE]", "what was measured, as JSON"}},
    "A run file that names it ([cluster] name = \"machine.toml\") is trained with a prediction beside each measured "
    "step.\n\n"
    "Example:\n  sextant calibrate --ranks 2 --out machine.toml\n",
    run_calibrate,
    true};

}  // namespace sextant::cli
