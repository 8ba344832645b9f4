#pragma once
// A rank's memory: one address range, every byte accounted under a tag.
#include <array>
#include <cstddef>
#include <map>
#include <set>

#include "sextant/base/units.h"

namespace sextant {

/// Whether freed and fresh memory is filled with NaN, so that a stale or unwritten value shows.
enum class Poison : bool { kOff, kOn };

class Pool {
 public:
  static constexpr int kMaxTags = 16;
  /// Reserves address space for `capacity`; pages are taken when first touched. Throws InvalidInput (does not fit).
  Pool(Bytes capacity, Poison poison);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Aligned to kAlignment. Best fit among the free ranges, which join again when freed: the same calls give the same
  /// addresses in every run. Throws InvalidInput (does not fit) when the range is full.
  void* allocate(Bytes bytes, int tag);
  void free(void* pointer);

  Bytes live() const { return live_; }
  Bytes live(int tag) const { return by_tag_[static_cast<std::size_t>(tag)]; }
  Bytes peak() const { return peak_; }                                     ///< greatest live(), exact
  const std::array<Bytes, kMaxTags>& at_peak() const { return at_peak_; }  ///< live by tag at that moment

 private:
  struct Block {
    std::int64_t size;
    int tag;
  };
  std::byte* base_ = nullptr;
  std::int64_t capacity_;
  Poison poison_;
  std::map<std::int64_t, std::int64_t> free_by_offset_;
  std::set<std::pair<std::int64_t, std::int64_t>> free_by_size_;  // (size, offset)
  std::map<std::int64_t, Block> used_;
  std::array<Bytes, kMaxTags> by_tag_{}, at_peak_{};
  Bytes live_, peak_;
};

/// Memory of one instance, freed at the end of its scope.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Pool& pool, Bytes bytes, int tag) : pool_(&pool), data_(pool.allocate(bytes, tag)) {}
  Buffer(Buffer&& o) noexcept : pool_(o.pool_), data_(o.data_) { o.data_ = nullptr; }
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(pool_, o.pool_), std::swap(data_, o.data_);
    return *this;
  }
  ~Buffer() {  // NOLINT(bugprone-exception-escape): a double free is our bug and may end the program
    if (data_) pool_->free(data_);
  }
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Pool* pool_ = nullptr;
  void* data_ = nullptr;
};

/// Resident memory of this process: now, and at its greatest. From /proc/self/status.
Bytes resident();
Bytes resident_peak();

}  // namespace sextant
