#pragma once
// SGD, momentum and AdamW in one pass over memory, on flat buckets.
#include <string>
#include <vector>

#include "sextant/base/fields.h"
#include "sextant/runtime/kernels/team.h"

namespace sextant {

enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kAdamW };
enum class LrSchedule : std::uint8_t { kConstant, kCosine, kLinear, kWsd };

/// [optimizer] of a run file.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 3e-4, momentum = 0.9, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  ///< of matrices only
  double clip_norm = 1;       ///< 0: no clipping
  LrSchedule schedule = LrSchedule::kCosine;
  std::int64_t warmup_steps = 0;
  double final_fraction = 0.1;  ///< learning rate at the end, of the peak
  double decay_fraction = 0.2;  ///< WSD: the part of all steps that decays
};
OptimizerConfig read_optimizer(const Value& run, const std::string& file);

/// Learning rate of a step (from 0) of `total` steps: linear warm-up, then the schedule.
double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t total);

/// Values of state per parameter element: 0, 1 (momentum) or 2 (AdamW).
int state_values(OptimizerKind kind);

/// A parameter's elements in its bucket.
struct Range {
  std::int64_t begin = 0, end = 0;
  bool decays = false;
};

/// One update of a bucket. `gradient_scale` multiplies every gradient (clipping); `updates` counts applied updates,
/// this one included. `m` and `v` are null where the optimizer has none. Source of AdamW: Loshchilov and Hutter 2019,
/// algorithm 2, decay scaled by the learning rate.
template <class T>
void optimizer_step(Team& team, const OptimizerConfig& config, double rate, std::int64_t updates, double gradient_scale,
                    const std::vector<Range>& ranges, T* parameters, const T* gradients, T* m, T* v);

/// Sum of squares of the ranges, in float64, in an order that does not depend on the team.
template <class T>
double sum_of_squares(Team& team, const std::vector<Range>& ranges, const T* values);

}  // namespace sextant
