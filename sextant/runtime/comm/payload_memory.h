#pragma once
// What the two halves of the fabric share: a payload as memory, and the time in which buffers of others may be touched.
#include <cstring>

#include "sextant/runtime/comm/endpoint.h"

namespace sextant {

inline std::int64_t bytes_of(const Payload& p) { return p.count * size_of(p.dtype); }
inline std::byte* at(const Payload& p, std::int64_t element) {
  return static_cast<std::byte*>(p.data) + element * size_of(p.dtype);
}
inline bool overlap(const Payload& a, const Payload& b) {
  return a.count > 0 && b.count > 0 && at(a, 0) < at(b, b.count) && at(b, 0) < at(a, a.count);
}
inline void copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
/// Of the first `rank` counts.
inline std::int64_t sum_before(const std::int64_t* counts, int rank) {
  std::int64_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += counts[r];
  return sum;
}

/// While one exists, buffers of other ranks may be touched; none comes to be once the run has failed.
class Copying {
 public:
  explicit Copying(Endpoint& end) : status_(end.status()) {
    status_.copying.store(1);
    if (!end.failed()) return;
    status_.copying.store(0);
    throw PeerFailed("another rank ended");
  }
  ~Copying() { status_.copying.store(0); }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  Status& status_;
};

}  // namespace sextant
