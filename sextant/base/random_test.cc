#include "sextant/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace sextant {
namespace {

// Known answers of the reference implementation (Random123 1.09, kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, MeaningsGiveDifferentStreams) {
  std::set<std::uint32_t> first;
  int made = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    for (const Purpose p : {Purpose::kInitialValue, Purpose::kDropout})
      for (std::uint64_t a = 0; a < 10; ++a)
        for (std::uint64_t b = 0; b < 10; ++b) first.insert(RandomStream(seed, p, a, b).bits(0)), ++made;
  EXPECT_EQ(static_cast<int>(first.size()), made);
}

TEST(RandomStream, NormalHasMeanZeroAndDeviationOne) {
  const RandomStream random(1, Purpose::kTest);
  double sum = 0, squares = 0;
  constexpr int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    sum += x, squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));  // four standard errors; the seed is fixed
  EXPECT_NEAR(squares / n, 1, 4 * std::sqrt(2.0 / n));
}

TEST(Permutation, IsOneForEverySize) {
  for (const std::uint64_t size : {1, 2, 3, 5, 16, 17, 100, 1000}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permuted(RandomStream(3, Purpose::kTest, size), i, size));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

}  // namespace
}  // namespace sextant
