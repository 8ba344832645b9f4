#include "sextant/base/random.h"

#include <cmath>
#include <numbers>

#include "sextant/base/errors.h"

namespace sextant {

double RandomStream::normal(std::uint64_t i) const {
  // Element i is one of the two that block i / 2 makes, each from 53 random bits.
  const auto b = block(i / 2, 1);
  const double u = (static_cast<double>(((std::uint64_t{b[0]} << 32) | b[1]) >> 11) + 0.5) * 0x1p-53;
  const double v = static_cast<double>(((std::uint64_t{b[2]} << 32) | b[3]) >> 11) * 0x1p-53;
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

std::uint64_t permuted(const RandomStream& stream, std::uint64_t index, std::uint64_t size) {
  check(index < size, "an index is below the size of its permutation");
  int half = 1;
  while (half < 32 && (std::uint64_t{1} << (2 * half)) < size) ++half;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  // The network permutes [0, 4^half); walking on until the value is inside [0, size) permutes that.
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (stream.bits(right, round) & mask);
      left = right, right = mixed;
    }
    index = (left << half) | right;
  } while (index >= size);
  return index;
}

}  // namespace sextant
