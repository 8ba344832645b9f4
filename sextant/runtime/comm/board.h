#pragma once
// What a rank shows to the other ranks of its node: plain memory, which stays readable when the rank is stopped or
// dead. Threads share it as it is, processes through a shared window.
#include <array>
#include <atomic>
#include <cstring>

#include "sextant/runtime/comm/communicator.h"

namespace sextant {

enum class What : std::uint8_t {
  kAllReduce,
  kAllReduceMax,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kSend,
  kRecv
};
std::string_view name_of(What what);
constexpr bool is_all_reduce(What what) { return what == What::kAllReduce || what == What::kAllReduceMax; }

/// What must agree between the ranks of a collective before a byte moves.
struct Fingerprint {
  What what = What::kBarrier;
  DType dtype = DType::kF32;
  std::int32_t root = 0;   ///< of a broadcast; the peer of a message
  std::int64_t count = 0;  ///< of the whole tensor; of an all_to_all 0, its counts are compared pair by pair
  char site[40] = {};
};
/// "all_reduce(4 x f32) at reduce L03".
std::string describe(const Fingerprint& print);

/// A value that one rank writes and others read at any time; a reader gets a whole one.
template <class T>
class Shown {
 public:
  void set(const T& value) {
    std::array<std::uint64_t, kWords> words{};
    std::memcpy(words.data(), &value, sizeof(T));
    const std::uint32_t v = version_.load(std::memory_order_relaxed);
    version_.store(v + 1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(v + 2, std::memory_order_release);
  }
  /// A writer that died in the middle leaves a torn value, which is better than none.
  T get() const {
    std::array<std::uint64_t, kWords> words{};
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const std::uint32_t v = version_.load(std::memory_order_acquire);
      for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (v % 2 == 0 && version_.load(std::memory_order_relaxed) == v) break;
    }
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof(T));
    return value;
  }

 private:
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr std::size_t kWords = (sizeof(T) + 7) / 8;
  std::atomic<std::uint32_t> version_{0};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

/// An operation as announced. Addresses are the announcing rank's.
struct Post {
  Fingerprint print;
  Payload in, out;
  const std::int64_t *in_counts = nullptr, *out_counts = nullptr;
};

/// A message on its way.
struct Letter {
  enum State : std::uint32_t { kFree, kPosted, kTaken };
  std::atomic<std::uint32_t> state{kFree};
  std::atomic<std::uint64_t> number{0};  // written first: a place is used again by a later letter
  std::atomic<int> to{-1}, tag{0};
  Payload data;
};

/// A rank's place in one group.
struct Desk {
  static constexpr std::uint64_t kWindow = 64;  // collectives that a rank may be ahead of the slowest
  static constexpr std::uint64_t kLetters = 256;
  std::atomic<std::uint64_t> posted{0};   // collectives announced
  std::atomic<std::uint64_t> moved{0};    // collectives whose copying this rank has done
  std::atomic<std::uint64_t> sent{0};     // messages announced
  std::atomic<std::uint64_t> settled{0};  // messages below this number are all taken
  std::atomic<std::int64_t> received{0};
  std::array<Post, kWindow> posts;
  std::array<Letter, kLetters> letters;
};

/// One operation in the memory of the last ones.
struct Record {
  std::uint64_t group = 0, number = 0;
  Fingerprint print;
  double start = 0, end = 0;  ///< seconds of the steady clock; end 0: not finished
};

/// A rank as the others of its node see it.
struct alignas(64) Status {
  static constexpr std::uint64_t kRecords = 1024;
  static constexpr std::size_t kGroups = 4096;
  struct Announced {
    std::atomic<std::uint64_t> group{0};
    std::atomic<Desk*> desk{nullptr};
  };
  std::atomic<std::uint32_t> bell{0}, sleeping{0};  // rung after each change that the rank may wait for
  std::atomic<std::uint64_t> token{0};              // of this rank's run, to know its memory again
  std::atomic<int> process{0}, thread{0};           // of the system
  std::atomic<Phase> phase{Phase::kStarting};
  std::atomic<double> since{0};         // of the phase
  std::atomic<std::uint64_t> ended{0};  // runs of this rank that are over, or wait for the others' end
  std::atomic<int> waits_for{-1};
  std::atomic<int> copying{0};  // it touches others' buffers right now
  std::atomic<bool> failed{false};
  std::atomic<std::uint64_t> recorded{0};
  std::array<Shown<Record>, kRecords> records;
  std::array<Announced, kGroups> groups;
};

/// Shared by all ranks of a node: how the run failed.
struct Board {
  std::atomic<bool> failed{false};
  std::atomic<int> speaker{-1};     // the rank that reports it
  std::atomic<int> exit_code{0};    // that the speaker ends with, once it has spoken
  std::atomic<int> remote_code{0};  // that a speaker of another node will end with
};

void ring(Status& status);
/// Sleeps until the bell has rung since `heard`, or the time is over.
void sleep_until_rung(Status& status, std::uint32_t heard, Seconds most);
double steady_seconds();

}  // namespace sextant
