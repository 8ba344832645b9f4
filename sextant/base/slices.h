#pragma once
// Slice maps and rounding that the program promises and the runtime does: one definition for both.
#include <cstdint>

#include "sextant/base/units.h"

namespace sextant {

struct Slice {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Part `i` of `n` of `count` elements; parts differ by at most one and cover everything once.
constexpr Slice slice_of(std::int64_t count, int n, int i) { return {count * i / n, count * (i + 1) / n}; }

/// A run of elements of a dim: where it starts in the whole, and in the slice that holds it.
struct Piece {
  std::int64_t in_whole = 0, in_slice = 0, size = 0;
};

/// Every buffer starts on a cache line and takes whole ones.
inline constexpr std::int64_t kAlignment = 64;
constexpr Bytes aligned(Bytes bytes) { return {(bytes.value + kAlignment - 1) / kAlignment * kAlignment}; }

}  // namespace sextant
