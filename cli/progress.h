#pragma once
// Progress of a training run: one live line on a terminal, plain lines in a log.
#include <string>

#include "sextant/runtime/train/trainer.h"

namespace sextant::cli {

class Progress {
 public:
  explicit Progress(const RunConfig& config);
  void start(double flops_per_step, double peak_flops) { flops_per_step_ = flops_per_step, peak_flops_ = peak_flops; }
  ~Progress() { finish(); }  ///< an error message stands on a line of its own
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(const StepRecord& record);
  /// Ends the live line, if any.
  void finish();

 private:
  std::string line(const StepRecord& record) const;
  const RunConfig& config_;
  double flops_per_step_ = 0, peak_flops_ = 1;
  bool terminal_, drawn_ = false;
  double smoothed_ = 0;  // seconds a step
  double shown_ = 0;     // when the live line was last drawn
};

}  // namespace sextant::cli
