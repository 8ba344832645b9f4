#include "sextant/base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sextant {

std::uint64_t digest(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::uint64_t sampled_digest(std::span<const std::byte> bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30, kBlock = std::size_t{1} << 16;
  if (bytes.size() <= kMost) return digest(bytes);
  const std::size_t blocks = kMost / kBlock, stride = (bytes.size() - kBlock) / (blocks - 1);
  std::uint64_t sum = bytes.size();
  for (std::size_t i = 0; i < blocks; ++i) sum = XXH3_64bits_withSeed(bytes.data() + i * stride, kBlock, sum);
  return sum;
}

}  // namespace sextant
