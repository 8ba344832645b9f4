#pragma once
// Measured runs that others have published, as plans to price: how far the prices are off.
#include <string>
#include <variant>
#include <vector>

#include "sextant/base/value.h"
#include "sextant/sim/forecast.h"

namespace sextant {

/// A row of a file of published runs that can be priced.
struct PublishedRun {
  std::string id, source;
  ModelConfig model;
  Workload workload;
  Plan plan;
  Cluster cluster;
  double measured_s = 0;      ///< of a step; 0: not stated
  double measured_bytes = 0;  ///< peak; 0: not stated
  bool out_of_memory = false, is_memory_trial = false;
  bool hides_experts = false;  ///< their all-to-alls run beside another microbatch
};
struct NotPriced {
  std::string id, source, reason;
};
using RunRow = std::variant<PublishedRun, NotPriced>;

/// Reads one row: {id, source, hardware, model, plan, measured, notes}. What the row leaves open is taken from its
/// software: kernels of attention and dropout by year, gradients that leave in one piece or in buckets. Throws
/// InvalidInput on a row of another shape.
RunRow read_published_run(const Value& row, const std::string& file);

struct PricedRun {
  std::string id, source, reason;  ///< reason: why it is not priced
  double predicted_s = 0, measured_s = 0, predicted_bytes = 0, measured_bytes = 0;
  bool priced = false, fits = true, out_of_memory = false, is_memory_trial = false;
  std::string sweep;  ///< model, devices and batch: rows that differ in their plan only
};
PricedRun price(const RunRow& row);

/// Errors over rows; fractions. `regret`: what the plan that prices call the fastest of a sweep loses to the fastest
/// one measured.
struct Accuracy {
  int rows = 0, priced = 0, timed = 0, memories = 0, trials = 0, sweeps = 0;
  double mape = 0, median_abs = 0, bias = 0, memory_mean = 0, oom_accuracy = 0, regret_median = 0, regret_worst = 0;
};
Accuracy accuracy_of(const std::vector<PricedRun>& runs);

}  // namespace sextant
