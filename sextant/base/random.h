#pragma once
// Counter-based random numbers keyed by meaning (purpose, step, layer, sample, token, channel), never by rank: every
// layout draws the same numbers.
#include <array>
#include <cstdint>
#include <string_view>

namespace sextant {

/// Philox4x32-10: four 32-bit numbers from a 128-bit counter and a 64-bit key.
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 4.3.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

enum class Purpose : std::uint32_t { kInitialValue = 1, kDropout = 2, kDataOrder = 3, kSampling = 4, kTest = 5 };

/// The numbers of one purpose. `what` tells its streams apart: a hash of a logical name, a layer, a step.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t what_a = 0, std::uint64_t what_b = 0) {
    // Two dependent draws make the key: distinct (seed, purpose, a, b) give independent streams.
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    const auto first =
        philox({low(what_a), high(what_a), static_cast<std::uint32_t>(purpose), 0}, {low(seed), high(seed)});
    const auto second = philox({low(what_b), high(what_b), first[2], first[3]}, {first[0], first[1]});
    key_ = {second[0], second[1]};
  }
  /// Four numbers at coordinates (i, j).
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t i, std::uint64_t j) const {
    return philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), static_cast<std::uint32_t>(j),
                   static_cast<std::uint32_t>(j >> 32)},
                  key_);
  }
  constexpr std::uint32_t bits(std::uint64_t i, std::uint64_t j = 0) const { return block(i, j / 4)[j % 4]; }
  /// In [0, 1).
  constexpr double uniform(std::uint64_t i, std::uint64_t j = 0) const { return bits(i, j) * 0x1p-32; }
  /// Standard normal, by Box and Muller on one block.
  double normal(std::uint64_t i) const;
  /// Below `bound`, without modulo bias beyond 2^-64.
  constexpr std::uint64_t below(std::uint64_t bound, std::uint64_t i) const {
    const auto b = block(i, 0);
    const std::uint64_t wide = (std::uint64_t{b[0]} << 32) | b[1];
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(wide) * bound) >> 64);
  }

 private:
  std::array<std::uint32_t, 2> key_{};
};

/// FNV-1a, for naming streams after logical names.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Position `index` of a pseudo-random permutation of [0, size): a four-round Feistel network with cycle walking.
std::uint64_t permuted(const RandomStream& stream, std::uint64_t index, std::uint64_t size);

}  // namespace sextant
