#pragma once
// A rank's memory: one address range, every byte accounted under a tag.
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "sextant/base/units.h"

namespace sextant {

/// Whether freed and fresh memory is filled with NaN, so that a stale or unwritten value shows.
enum class Poison : bool { kOff, kOn };

/// A range of address space, given back at the end of its scope; pages are taken when first touched.
class Region {
 public:
  /// Private memory. Throws InvalidInput (does not fit).
  explicit Region(Bytes capacity);
  /// Memory of somebody else's, to whom `give_back` returns it.
  Region(void* data, Bytes capacity, std::function<void()> give_back)
      : data_(data), capacity_(capacity), give_back_(std::move(give_back)) {}
  Region(Region&& o) noexcept
      : data_(o.data_), capacity_(o.capacity_), give_back_(std::exchange(o.give_back_, nullptr)) {}
  Region& operator=(Region&& o) noexcept {
    std::swap(data_, o.data_), std::swap(capacity_, o.capacity_), std::swap(give_back_, o.give_back_);
    return *this;
  }
  ~Region() {
    if (give_back_) give_back_();
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  Bytes capacity() const { return capacity_; }

 private:
  void* data_;
  Bytes capacity_;
  std::function<void()> give_back_;
};

class Pool {
 public:
  static constexpr int kMaxTags = 16;
  Pool(Region region, Poison poison);
  /// Over private memory. Throws InvalidInput (does not fit).
  Pool(Bytes capacity, Poison poison) : Pool(Region(capacity), poison) {}
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
  Region region_;
  std::byte* base_;
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
