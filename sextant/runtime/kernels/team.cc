#include "sextant/runtime/kernels/team.h"

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
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { serve(t); });
}

Team::~Team() {
  stop_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::start(Call call, const void* work) {
  call_ = call, work_ = work;
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  call(work, 0);
  for (int spun = 0; busy_.load(std::memory_order_acquire) > 0; ++spun) {
    if (spun < spin_) pause();
    else std::this_thread::yield();
  }
}

void Team::serve(int thread) {
  gemm_use_one_thread();
  std::uint32_t seen = 0;
  for (;;) {
    int spun = 0;
    while (round_.load(std::memory_order_acquire) == seen) {
      if (++spun < spin_) pause();
      else round_.wait(seen, std::memory_order_acquire);
    }
    ++seen;
    if (stop_) return;
    call_(work_, thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace sextant
