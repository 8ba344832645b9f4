#pragma once
// Runs a plan for a few steps and keeps everything that a proof compares: loss, every gradient, norms, weights.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sextant/runtime/comm/threads.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant {

struct ProofRun {
  ModelConfig model;
  std::function<Model(const ModelConfig&, Sizes)> build = [](const ModelConfig& c, Sizes s) {
    return build_model(c, s);
  };
  Workload workload{16, 24, DType::kF64};
  Plan plan;
  OptimizerConfig optimizer{.kind = OptimizerKind::kSgd,
                            .learning_rate = 0.1,
                            .weight_decay = 0,
                            .clip_norm = 0,
                            .schedule = LrSchedule::kConstant};
  SampleSource source;
  int steps = 3;
  int threads = 1;
  const KernelTable* kernels = nullptr;                 ///< null: those of the runtime
  std::function<void(int rank, int step)> before_step;  ///< on the rank's thread
  /// How ranks come to be; a process that is none of them gets an outcome without results.
  std::function<void(int ranks, const std::function<void(Communicator&)>&)> launch =
      [](int ranks, const std::function<void(Communicator&)>& body) { run_threads(ranks, body); };
};

struct ProofOutcome {
  std::vector<StepResult> results;                       ///< first rank's; of a process its own rank's
  std::map<std::string, std::vector<double>> gradients;  ///< after the first step
  std::map<std::string, std::vector<double>> weights;    ///< after the last
  std::map<std::string, std::vector<double>> initial;
  bool ranks_agree = true;   ///< results and weights bitwise equal on all ranks
  bool bytes_match = true;   ///< received = promised on every rank
  bool peak_matches = true;  ///< pool = memory plan on every rank
  Bytes peak;
};
ProofOutcome prove(const ProofRun& run);

/// max |a - b| / max |b| per tensor; the greatest, and whose it is. A key bias, whose gradient is zero in theory where
/// positions are learned, is measured against 1e-5 of the greatest value of all tensors if its own is less.
struct Worst {
  double error = 0;
  std::string tensor;
};
Worst compare(const std::map<std::string, std::vector<double>>& a, const std::map<std::string, std::vector<double>>& b);

/// Random tokens with uneven masks: sample j keeps a share of its labels that depends on j; every fifth keeps none.
SampleSource uneven_samples(std::int64_t vocabulary);
/// The same tokens, with exactly valid[j % n] labels kept in sample j.
SampleSource samples_with_valid(std::int64_t vocabulary, const std::vector<int>& valid);

}  // namespace sextant
