#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <iostream>
#include <thread>

#include "cli/cli.h"
#include "cli/forecast_text.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "sextant/base/atomic_file.h"
#include "sextant/plan/job.h"
#include "sextant/program/memory.h"
#include "sextant/program/program.h"
#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/train/trainer.h"
#include "sextant/sim/virtual_run.h"
#include "sextant/trace/gantt.h"

namespace sextant::cli {
namespace {

/// Appends a JSON line a step.
class Metrics {
 public:
  explicit Metrics(const std::string& path) : path_(path) {
    if (path_.empty()) return;
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd_ < 0)
      throw InvalidInput(str("train.metrics ", printable(path_), ": cannot be written: ", std::strerror(errno)),
                         ExitCode::kStorage);
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);  // opening a pipe must not wait; writing may
  }
  ~Metrics() {
    if (fd_ >= 0) ::close(fd_);
  }
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  /// Throws InvalidInput (storage) if a line could not be written; a run is not given up for it, but says so at its
  /// end.
  void finish() const {
    if (!failure_.empty())
      throw InvalidInput(str("train.metrics ", printable(path_), ": could not be written to its end: ", failure_),
                         ExitCode::kStorage);
  }
  void step(const StepRecord& r) {
    if (fd_ < 0 || !failure_.empty()) return;
    Value v;
    v.set("step", r.step);
    v.set("loss", r.result.loss);
    v.set("grad_norm", r.result.grad_norm);
    v.set("learning_rate", r.result.learning_rate);
    v.set("tokens", r.result.tokens);
    v.set("skipped", r.result.skipped);
    v.set("time_s", r.time.value);
    v.set("resident_bytes", r.resident.value);
    const std::string line = to_json(v) + "\n";
    std::size_t done = 0;
    while (done < line.size() && failure_.empty()) {
      const ssize_t put = ::write(fd_, line.data() + done, line.size() - done);
      if (put >= 0)
        done += static_cast<std::size_t>(put);
      else if (errno != EINTR)
        failure_ = std::strerror(errno);
    }
  }

 private:
  std::string path_, failure_;
  int fd_ = -1;
};

std::string bar(double fraction) {
  const int cells = static_cast<int>(std::lround(30 * fraction));
  return std::string(static_cast<std::size_t>(cells), '#');
}

void print_summary(const RunSummary& s, const RunConfig& config, const std::optional<Forecast>& predicted) {
  std::cerr << "\nWhere the time went (first rank):\n";
  double total = 0, rest = 0;
  for (const auto& [what, time] : s.time_by_what) total += time.value;
  for (std::size_t i = 0; i < s.time_by_what.size(); ++i) {
    const auto& [what, time] = s.time_by_what[i];
    if (i >= 10) {
      rest += time.value;
      continue;
    }
    char line[160];
    std::snprintf(line, sizeof line, "  %-16s %5.1f%%  %s\n", what.c_str(), 100 * time.value / total,
                  bar(time.value / total).c_str());
    std::cerr << line;
  }
  if (rest > 0)
    std::cerr << str("  and ", static_cast<double>(std::lround(1000 * rest / total)) / 10, "% in ",
                     s.time_by_what.size() - 10, " others\n");
  std::cerr << "\nMemory of a rank at its peak: " << human(s.peak_memory) << ", promised "
            << human(s.predicted_peak_memory)
            << (s.peak_memory == s.predicted_peak_memory ? " (equal to the byte)" : " (DIFFERENT)") << "\n";
  for (int t = 0; t < kNumMemoryTags; ++t)
    if (s.peak_by_tag[static_cast<std::size_t>(t)].value > 0) {
      char line[80];
      std::snprintf(line, sizeof line, "  %-12s %s\n", std::string(name_of(static_cast<MemoryTag>(t))).c_str(),
                    human(s.peak_by_tag[static_cast<std::size_t>(t)]).c_str());
      std::cerr << line;
    }
  std::cerr << "  resident peak of the process: " << human(s.resident_peak) << "\n";
  std::cerr << "\nBytes that a rank received: " << human(s.comm.total()) << ", promised "
            << human(s.predicted_comm.total())
            << (s.comm.total() == s.predicted_comm.total() ? " (equal to the byte)" : " (DIFFERENT)") << "\n";
  const auto group = [](const char* name, Bytes got) {
    if (got.value > 0) std::cerr << "  " << name << ": " << human(got) << "\n";
  };
  group("gradients over dp_shard·cp", s.comm[Group::kZero]);
  group("gradients over dp_replicate", s.comm[Group::kReplicas]);
  group("inside layers, over tp", s.comm[Group::kTensor] + s.comm[Group::kCopies]);
  group("inside layers, over cp", s.comm[Group::kContext]);
  group("gradients of experts over edp", s.comm[Group::kExpertZero]);
  group("rows of experts, over ep", s.comm[Group::kExpert]);
  group("rows of experts, over etp", s.comm[Group::kExpertTensor]);
  group("sums over holders of a weight", s.comm[Group::kHolders]);
  group("stage borders", s.comm.messages);
  group("loss, norm and token counts", s.comm[Group::kData] + s.comm[Group::kWorld]);
  if (config.plan.pp > 1) {
    std::cerr << "\nThe last step (seconds; ranks by number):\n"
              << gantt_text(s.last_step, {.columns = 100, .colour = isatty(STDERR_FILENO) != 0});
    const Program program =
        build_program(build_model(config.model, sizes_of(config.plan, config.workload)), config.plan);
    std::cerr << "Bubble: " << std::lround(100 * measured_bubble(s.last_step)) << "% of the step, "
              << std::lround(
                     100 *
                     report(program, run_virtually(program, measured_prices(program, s.last_step))).bubble_fraction)
              << "% in virtual time with the same times of units\n";
  }
  std::cerr << "\nSpeed: " << human(s.tokens_per_s, "tok/s") << ", " << human(s.step_time) << " a step (median), "
            << std::lround(100 * s.mfu) << "% of the measured peak of " << human(s.peak_flops, "FLOP/s") << "\n";
  if (predicted)
    std::cerr << "Predicted on " << printable(config.cluster, 60) << ": " << human(predicted->step()) << " a step, "
              << percent(predicted->step() / s.step_time - 1) << " off\n";
  std::cerr << "Loss: " << s.losses.front() << " -> " << s.losses.back()
            << (s.skipped ? str("; ", s.skipped, " steps were skipped") : "") << "\n";
  if (!config.output.empty())
    std::cerr << "Weights: in " << printable(config.output) << "   (sextant generate " << printable(config.output)
              << " --prompt \"In the beginning\")\n";
}

// Set by Ctrl-C; the step that runs is finished, and weights are saved. A second Ctrl-C ends at once.
std::atomic<bool> interrupted{false};

// Signals go to a thread of their own, and every other thread has them blocked: kernels of oneDNN keep data where the
// system would put the frame of a handler (with 2.6.3 a handler in the middle of a product corrupts the heap).
void hear_interrupts() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    if (!is_ignored(signal)) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    for (int signal = 0; ::sigwait(&signals, &signal) == 0;) {
      if (!interrupted.exchange(true) || signal == SIGUSR1) continue;  // that one is the launcher's, who counts
      sigset_t this_one;
      ::sigemptyset(&this_one);
      ::sigaddset(&this_one, signal);
      std::signal(signal, SIG_DFL);
      ::pthread_sigmask(SIG_UNBLOCK, &this_one, nullptr);
      ::kill(::getpid(), signal);
    }
  }).detach();
}

void print_banner(const RunConfig& config, const Prepared& prepared, const Communicator* world) {
  const int ranks = config.plan.num_ranks();
  const auto job = mpi_process();
  const std::string kind = !world ? "" : str(" (processes of ", job->started_by, ", ", world->ranks_here(), " here)");
  std::cerr << config.model.family << ", " << with_commas(prepared.model.num_parameters()) << " parameters; " << ranks
            << (ranks == 1 ? " rank" : " ranks") << kind << " x " << config.threads
            << (config.threads == 1 ? " thread" : " threads") << ", step of " << config.workload.global_batch << " x "
            << config.workload.sequence << " tokens in " << config.plan.num_microbatches
            << (config.plan.num_microbatches == 1 ? " microbatch of " : " microbatches of ")
            << config.plan.microbatch_size << "; products by " << gemm_library() << "\n";
}

void print_program(const Arguments& a, const RunConfig& config, const std::string& what) {
  if (a.has("--json"))
    throw InvalidInput("sextant train: --print-program and --json do not go together; the program is text",
                       ExitCode::kUsage);
  if (!what.empty() && what != "units")
    throw InvalidInput(
        str("sextant train: --print-program=", printable(what, 40), ": known: --print-program, --print-program=units"),
        ExitCode::kUsage);
  const Program program = build_program(build_model(config.model, sizes_of(config.plan, config.workload)), config.plan);
  std::cout << to_string(program);
  if (what == "units")
    for (const RankProgram& rank : program.by_pp)
      for (const Unit& unit : rank.units) std::cout << to_string(unit, program.mesh);
}

RunConfig read_config_of(const Arguments& a, int ranks, int ranks_here) {
  return read_run(a.file("a run file"), a.overrides(), static_cast<int>(a.integer("--ranks", ranks, 1, 4096)),
                  ranks_here);
}

// All ranks as threads (`world` null), or one rank of a job. Only the first rank speaks and writes.
int train_here(const Arguments& a, Communicator* world) {
  const RunConfig config = read_config_of(a, world ? world->size() : 0, world ? world->ranks_here() : 0);
  const bool first = !world || world->rank() == 0;
  if (const auto what = a.value("--print-program")) {
    if (first) print_program(a, config, *what);
    return 0;
  }
  if (world && config.plan.num_ranks() != world->size())
    throw InvalidInput(str(printable(config.file), ": the plan is for ", config.plan.num_ranks(),
                           " ranks, this job has ", world->size(), "; start ", config.plan.num_ranks(),
                           ", or change [plan]"));
  std::vector<std::string> others = files_of(config);
  if (!config.output.empty())
    for (const char* made : {"/model.safetensors", "/config.json", "/tokenizer.json"})
      others.push_back(config.output + made);
  require_apart(config.metrics, "train.metrics", others);
  others.push_back(config.metrics);
  if (first) require_outputs(a, {"--json", "--trace"}, others);
  std::signal(SIGPIPE, SIG_IGN);  // who watches may go; the run and its weights stay
  std::optional<Metrics> metrics;
  std::optional<Progress> progress;
  if (first) metrics.emplace(config.metrics), progress.emplace(config);
  if (!world) hear_interrupts();
  std::optional<Forecast> predicted;
  if (first && !config.cluster.empty())
    predicted = forecast(config.model, config.workload, config.plan, find_cluster(config.cluster));
  const TrainHooks hooks{.on_start =
                             [&](const Prepared& prepared, double peak_flops) {
                               print_banner(config, prepared, world);
                               progress->start(model_flops(prepared.program), peak_flops);
                             },
                         .on_step =
                             [&](const StepRecord& r) {
                               metrics->step(r);
                               progress->step(r);
                             },
                         .should_stop = [] { return interrupted || launcher_is_gone(); },
                         .report = report_error};
  const RunSummary summary = world ? sextant::train(config, hooks, *world) : sextant::train(config, hooks);
  if (!first) return 0;
  progress->finish();
  print_summary(summary, config, predicted);
  if (a.has("--trace")) write_output(a, "--trace", to_chrome_trace(summary.last_step));
  Value json = to_value(summary);
  if (predicted) json.set("predicted_step_time_s", predicted->step().value);
  json.set("job", job_of(config.model, config.workload, config.plan));
  write_json(a, json);
  metrics->finish();
  if (!summary.interrupted) return 0;
  std::cerr << "error: interrupted behind step " << summary.steps << " of " << config.steps
            << "; the weights so far are " << (config.output.empty() ? "not saved (no train.output)" : "saved") << "\n";
  return static_cast<int>(ExitCode::kInterrupted);
}

int run_train(const Arguments& a) {
  if (backend_of(a) == Backend::kThreads) return train_here(a, nullptr);
  if (!mpi_process()) {
    if (!has_mpi()) run_mpi({});  // says why not
    const RunConfig config = read_config_of(a, 0, 0);
    if (a.has("--print-program")) return train_here(a, nullptr);
    return start_mpirun(a, config.plan.num_ranks());
  }
  hear_interrupts();
  tell_launcher_up();
  int code = 0;
  run_mpi([&](Communicator& world) { code = train_here(a, &world); }, {}, report_error);
  return code;
}

}  // namespace

const Command train = {
    "train",
    "RUN.toml [--ranks N] [section.key=value ...]",
    "Trains the model of a run file.",
    {{"--ranks", "N", "number of ranks; fills plan.dp_shard if the file leaves it out"},
     {"--backend", "KIND", "threads: of this process; mpi: processes, starts mpirun unless it runs under it"},
     {"--print-program", "[=units]", "prints what a step does and ends; =units: with every op of every layer"},
     {"--trace", "FILE", "the last step of all ranks, for chrome://tracing and ui.perfetto.dev"},
     {"--json", "[=FILE]", "the summary as JSON, to standard output or a file"}},
    "Examples:\n"
    "  sextant train examples/kjv/run.toml --ranks 4\n"
    "  sextant train examples/kjv/run.toml train.steps=20 optimizer.learning_rate=1e-3\n"
    "  sextant train examples/kjv/run.toml --print-program\n"
    "  sextant train examples/kjv/run.toml --ranks 4 --backend mpi\n"
    "  mpirun -n 4 sextant train examples/kjv/run.toml\n"
    "\nProgress goes to standard error. Exit codes: 0 done, 2 usage, 3 invalid run file, 4 does not fit,\n"
    "5 damaged data, 7 a rank is missing, 8 the loss diverged, 9 storage, 130 interrupted (docs/errors.md).\n",
    run_train,
    true};

}  // namespace sextant::cli
