#include "sextant/runtime/memory/pool.h"

#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include "sextant/base/errors.h"
#include "sextant/base/slices.h"

namespace sextant {

Region::Region(Bytes capacity) : data_(nullptr), capacity_(aligned(capacity)) {
  const auto size = static_cast<std::size_t>(capacity_.value);
  data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data_ == MAP_FAILED)
    throw InvalidInput(str("cannot reserve ", human(capacity), " of memory"), ExitCode::kDoesNotFit);
  ::madvise(data_, size, MADV_HUGEPAGE);
  give_back_ = [data = data_, size] { ::munmap(data, size); };
}

Pool::Pool(Region region, Poison poison)
    : region_(std::move(region)), base_(region_.data()), capacity_(region_.capacity().value), poison_(poison) {
  free_by_offset_[0] = capacity_;
  free_by_size_.emplace(capacity_, 0);
}

void* Pool::allocate(Bytes bytes, int tag) {
  const std::int64_t size = std::max(aligned(bytes).value, kAlignment);
  const auto found = free_by_size_.lower_bound({size, 0});
  if (found == free_by_size_.end())
    throw InvalidInput(str("out of memory: ", human(bytes), " more on top of ", human(live_), " do not fit the ",
                           human(Bytes{capacity_}), " of this rank; use a smaller microbatch_size, sequence or model"),
                       ExitCode::kDoesNotFit);
  const auto [whole, offset] = *found;
  free_by_size_.erase(found);
  free_by_offset_.erase(offset);
  if (whole > size) {
    free_by_offset_[offset + size] = whole - size;
    free_by_size_.emplace(whole - size, offset + size);
  }
  used_[offset] = {size, tag};
  by_tag_[static_cast<std::size_t>(tag)] += {size};
  live_ += {size};
  if (live_ > peak_) peak_ = live_, at_peak_ = by_tag_;
  if (poison_ == Poison::kOn)
    std::memset(base_ + offset, 0xff, static_cast<std::size_t>(size));  // NaN as float and as double
  return base_ + offset;
}

void Pool::free(void* pointer) {
  std::int64_t offset = static_cast<std::byte*>(pointer) - base_;
  const auto used = used_.find(offset);
  check(used != used_.end(), "a freed pointer was allocated here and not freed before");
  auto [size, tag] = used->second;
  used_.erase(used);
  by_tag_[static_cast<std::size_t>(tag)] -= {size};
  live_ -= {size};
  if (poison_ == Poison::kOn) std::memset(base_ + offset, 0xff, static_cast<std::size_t>(size));
  auto next = free_by_offset_.lower_bound(offset);
  if (next != free_by_offset_.end() && next->first == offset + size) {
    size += next->second;
    free_by_size_.erase({next->second, next->first});
    next = free_by_offset_.erase(next);
  }
  if (next != free_by_offset_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_by_size_.erase({before->second, before->first});
      free_by_offset_.erase(before);
    }
  }
  free_by_offset_[offset] = size;
  free_by_size_.emplace(size, offset);
}

namespace {

Bytes from_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == key) {
      std::int64_t kib = 0;
      status >> kib;
      return {kib * 1024};
    }
  return {};
}

}  // namespace

Bytes resident() { return from_status("VmRSS:"); }
Bytes resident_peak() { return from_status("VmHWM:"); }

}  // namespace sextant
