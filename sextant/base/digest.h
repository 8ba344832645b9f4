#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant {

/// XXH3 of bytes, 64 bits.
std::uint64_t digest(std::span<const std::byte> bytes);
/// The same for a large file: of more than 1 GiB, of 1 GiB of it in evenly spread blocks, and of its size.
std::uint64_t sampled_digest(std::span<const std::byte> bytes);

}  // namespace sextant
