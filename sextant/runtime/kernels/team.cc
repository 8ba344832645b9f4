#include "sextant/runtime/kernels/team.h"

#include <system_error>
#include <utility>

#include "sextant/base/errors.h"
#include "sextant/runtime/kernels/gemm.h"

namespace sextant {
namespace {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Team::Team(int threads, int spin) : spin_(spin) {
  gemm_use_one_thread();
  try {
    for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { serve(t); });
  } catch (const std::system_error& e) {
    stop();
    throw InvalidInput(
        str("this machine cannot start ", threads, " threads for a rank (", e.what(), "); use a smaller train.threads"),
        ExitCode::kDoesNotFit);
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stopped_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::start(Call call, const void* work) {
  call_ = call, work_ = work;
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work_on(call, work, 0);
  for (int spun = 0; busy_.load(std::memory_order_acquire) > 0; ++spun) {
    if (spun < spin_)
      pause();
    else
      std::this_thread::yield();
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Team::work_on(Call call, const void* work, int thread) noexcept {
  try {
    call(work, thread);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void Team::serve(int thread) {
  gemm_use_one_thread();
  std::uint32_t seen = 0;
  for (;;) {
    int spun = 0;
    while (round_.load(std::memory_order_acquire) == seen) {
      if (++spun < spin_)
        pause();
      else
        round_.wait(seen, std::memory_order_acquire);
    }
    ++seen;
    if (stopped_) return;
    work_on(call_, work_, thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace sextant
