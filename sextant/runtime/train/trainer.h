#pragma once
// Training runs and text generation, from a run file to weights.
#include <functional>
#include <optional>

#include "sextant/runtime/checkpoint/weights.h"
#include "sextant/runtime/exec/executor.h"
#include "sextant/runtime/train/run_config.h"

namespace sextant {

struct Prepared;
struct StepRecord {
  std::int64_t step = 0;
  StepResult result;
  Seconds time;
  Bytes resident;
};

/// What a run did and what was promised. The JSON of `sextant train --json`.
struct RunSummary {
  std::int64_t steps = 0, skipped = 0;  ///< done; and how many of them updated nothing
  bool interrupted = false;             ///< ended before its last step because `should_stop` said so
  std::vector<double> losses;
  double tokens_per_s = 0, mfu = 0, peak_flops = 0;
  Seconds step_time;                         ///< median
  Bytes peak_memory, predicted_peak_memory;  ///< pool of the first rank
  std::array<Bytes, kNumMemoryTags> peak_by_tag{};
  Bytes resident_peak, predicted_resident;  ///< of the process
  StepBytes comm, predicted_comm;           ///< of the first rank, all steps
  std::vector<std::pair<std::string, Seconds>> time_by_what;
  Timeline last_step;  ///< of the ranks of this process
};
Value to_value(const RunSummary& summary);

/// Fused multiply-adds of this machine, float32, measured on `threads` threads in a fifth of a second. FLOP/s.
double measured_peak_flops(int threads);
/// Bytes that `threads` threads read and write a second when they copy arrays far beyond the caches, measured in about
/// half a second. B/s.
double measured_bandwidth(int threads);
/// FLOP/s of a float32 matrix product of 1024 x 1024 x 1024 on `threads` threads, the best of a few.
double measured_product_flops(int threads);

struct TrainHooks {
  std::function<void(const Prepared&, double peak_flops)> on_start;  ///< once, before the ranks start
  std::function<void(const StepRecord&)> on_step;                    ///< first rank only, after each step
  std::function<bool()> should_stop;                                 ///< asked by every rank, in each step
  Report report;  ///< so that a run ends even if one of its ranks hangs for good
};
/// Everything about a run that is known before its first step.
struct Prepared {
  Model model;
  Program program;
  std::vector<MemoryPlan> memory;  ///< by pipeline coordinate
  std::size_t worst = 0;           ///< the one with the greatest peak
  Tokens tokens;
  WindowSampler sampler;
  std::optional<WeightFiles> initial;  ///< weights to start from
};
/// The files that a run reads; a name may be empty.
std::vector<std::string> files_of(const RunConfig& config);
/// Opens data and initial weights, lowers the model, walks the memory. Throws InvalidInput if the data is off or does
/// not go with the model, or if the ranks (`ranks_here` of them; 0: all) do not fit this machine.
Prepared prepare(const RunConfig& config, int ranks_here = 0);

/// Throws InvalidInput (does not fit) if `ranks` ranks of this peak are more than the machine's memory.
void require_memory(const std::string& what, const MemoryPlan& plan, int ranks);
/// Trains on `config.plan.num_ranks()` threads-as-ranks. Throws InvalidInput (bad input; diverged) or CommError.
RunSummary train(const RunConfig& config, const TrainHooks& hooks);
/// Trains as one rank of a job whose ranks are processes and may see different files: what they read is compared before
/// the first step. The summary is the first rank's; the others get an empty one.
RunSummary train(const RunConfig& config, const TrainHooks& hooks, Communicator& world);

/// Fills the data of all microbatches of a step for one rank. Ids are below the model's vocabulary.
void fill_step(Executor& executor, const RunConfig& config, const SampleSource& source, std::int64_t step,
               int data_rank);

struct GenerateOptions {
  std::string folder;     ///< config.json, safetensors and perhaps tokenizer.json
  std::string tokenizer;  ///< tokenizer.json; "": the folder's, or bytes if it has none
  std::string prompt;
  std::int64_t tokens = 200;
  double temperature = 0.8;
  std::uint64_t seed = 1;
  int threads = 1;
};
/// Continues a prompt; `on_text` gets each piece as it is made.
void generate(const GenerateOptions& options, const std::function<void(std::string_view)>& on_text);

}  // namespace sextant
