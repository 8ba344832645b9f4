#pragma once
// The threads of one rank. Work is split by the caller into parts whose results do not depend on how many threads
// there are; parts run at once and the call returns, or throws a part's error, when all are done.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sextant {

class Team {
 public:
  /// `threads` >= 1, the calling one included. `spin`: how often a waiting thread looks before it sleeps; 0 where
  /// there are more threads than cores.
  explicit Team(int threads, int spin = 20000);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Runs work(thread) on every thread of the team; thread 0 is the caller.
  template <class F>
  void run(const F& work) {
    if (workers_.empty()) return work(0);
    start([](const void* f, int thread) { (*static_cast<const F*>(f))(thread); }, &work);
  }
  /// Splits [0, count) into one contiguous range per thread, in multiples of `grain`; calls work(begin, end).
  template <class F>
  void split(std::int64_t count, std::int64_t grain, const F& work) {
    const std::int64_t grains = (count + grain - 1) / grain, n = threads();
    if (n == 1 || grains <= 1) return work(std::int64_t{0}, count);
    run([&](int t) {
      const std::int64_t begin = grains * t / n * grain, end = std::min(count, grains * (t + 1) / n * grain);
      if (begin < end) work(begin, end);
    });
  }

 private:
  using Call = void (*)(const void*, int);
  void start(Call call, const void* work);
  void serve(int thread);
  void stop();
  void work_on(Call call, const void* work, int thread) noexcept;
  std::vector<std::thread> workers_;
  int spin_;
  std::mutex error_mutex_;
  std::exception_ptr error_;  // the first of a round
  Call call_ = nullptr;
  const void* work_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> round_{0};
  alignas(64) std::atomic<int> busy_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace sextant
