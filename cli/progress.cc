#include "cli/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

namespace sextant::cli {

Progress::Progress(const RunConfig& config) : config_(config), terminal_(::isatty(STDERR_FILENO) == 1) {}

std::string Progress::line(const StepRecord& r) const {
  const double tokens = static_cast<double>(config_.workload.global_batch * config_.workload.sequence);
  const double left = smoothed_ * static_cast<double>(config_.steps - r.step - 1);
  char text[256];
  std::snprintf(text, sizeof text, "step %lld/%lld  loss %.4f  %s  %.0f%% of peak  |g| %.3g  %s  left %s%s",
                static_cast<long long>(r.step) + 1, static_cast<long long>(config_.steps), r.result.loss,
                human(tokens / smoothed_, "tok/s").c_str(), 100 * flops_per_step_ / smoothed_ / peak_flops_,
                r.result.grad_norm, human(r.resident).c_str(), human(Seconds{left}).c_str(),
                r.result.skipped ? ("  skipped: " + r.result.reason).c_str() : "");
  return text;
}

void Progress::step(const StepRecord& r) {
  // The first step warms caches and pages; it does not count for the rate.
  smoothed_ = r.step <= 1 ? r.time.value : 0.95 * smoothed_ + 0.05 * r.time.value;
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  const bool is_last = r.step + 1 == config_.steps;
  if (terminal_) {
    if (now - shown_ < 0.1 && !is_last) return;
    shown_ = now;
    drawn_ = true;
    std::cerr << "\r\x1b[K" << line(r) << std::flush;
  } else if (r.step % config_.log_every == 0 || is_last || r.result.skipped) {
    std::cerr << line(r) << "\n";
  }
}

void Progress::finish() {
  if (drawn_) std::cerr << "\n";
  drawn_ = false;
}

}  // namespace sextant::cli
