#pragma once
// A run file: everything that `sextant train` needs.
#include "sextant/plan/plan_file.h"
#include "sextant/runtime/data/batch.h"
#include "sextant/runtime/optim/optimizer.h"

namespace sextant {

struct RunConfig {
  std::string file;
  std::string settings;  ///< everything that the file, the arguments and the model's config say, as one text
  ModelConfig model;
  std::string model_file;  ///< "" for a preset
  Workload workload;
  Plan plan;
  std::string cluster;  ///< what step times are predicted for; "" for none
  OptimizerConfig optimizer;
  std::string train_data;  ///< text or token file
  std::string tokenizer;   ///< tokenizer.json that made it, which goes into the output; "" for bytes, or to leave it
  Packing packing = Packing::kIgnore;
  std::int64_t steps = 100;
  std::int64_t stop_after = 0;  ///< ends behind this step of the `steps` that the schedule spans; 0: at the end
  std::uint64_t seed = 1;
  int threads = 1;              ///< of each rank
  std::int64_t log_every = 1;   ///< steps between lines of the log when it is no terminal
  Seconds timeout;              ///< patience with a rank that gives no sign of life; 0: learned
  std::string metrics;          ///< JSONL file, appended; "" for none
  std::string output;           ///< folder for weights and config; "" for none
  Bytes shard{5'000'000'000};   ///< weights beyond it are written as several files
  std::string initial_weights;  ///< safetensors file, index or folder to start from; "" to draw them
};

/// Reads a run file with overrides; `ranks` 0 takes the plan's; `ranks_here` of them share this machine (0: all). Paths
/// in it are relative to the file's folder. Throws InvalidInput on anything off, the plan's violations all at once.
RunConfig read_run(const std::string& path, const std::vector<Override>& overrides, int ranks, int ranks_here = 0);

}  // namespace sextant
