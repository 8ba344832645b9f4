#include "sextant/runtime/memory/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"

namespace sextant {
namespace {

TEST(Pool, AccountsByTagAndRemembersThePeak) {
  Pool pool({1 << 20}, Poison::kOff);
  void* a = pool.allocate({100}, 0);  // takes 128: whole cache lines
  void* b = pool.allocate({64}, 1);
  EXPECT_EQ(pool.live().value, 192);
  EXPECT_EQ(pool.live(0).value, 128);
  pool.free(a);
  EXPECT_EQ(pool.live().value, 64);
  EXPECT_EQ(pool.peak().value, 192);
  EXPECT_EQ(pool.at_peak()[1].value, 64);
  EXPECT_EQ(pool.allocate({128}, 0), a);  // the hole is taken again
  pool.free(b);
}

TEST(Pool, FreedRangesJoinAgainInAnyOrder) {
  Pool pool({1 << 16}, Poison::kOff);
  const RandomStream random(7, Purpose::kTest);
  for (std::uint64_t round = 0; round < 50; ++round) {
    std::vector<void*> blocks;
    for (std::uint64_t i = 0; i < 20; ++i)
      blocks.push_back(pool.allocate({1 + static_cast<std::int64_t>(random.below(2000, round * 100 + i))}, 0));
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto pick = static_cast<std::size_t>(random.below(blocks.size(), round * 100 + 50 + i));
      pool.free(blocks[pick]);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    EXPECT_EQ(pool.live().value, 0);
    pool.free(pool.allocate({1 << 16}, 0));  // the whole range is one again
  }
}

TEST(Pool, PoisonIsNanForFloatAndDouble) {
  Pool pool({1 << 12}, Poison::kOn);
  auto* p = static_cast<double*>(pool.allocate({64}, 0));
  EXPECT_TRUE(std::isnan(p[7]));
  EXPECT_TRUE(std::isnan(reinterpret_cast<float*>(p)[3]));
  p[0] = 1;
  pool.free(p);
  EXPECT_TRUE(std::isnan(p[0]));
}

TEST(Pool, FullAndDoubleFree) {
  Pool pool({1 << 12}, Poison::kOff);
  EXPECT_THROW(pool.allocate({1 << 13}, 0), InvalidInput);
  void* p = pool.allocate({64}, 0);
  pool.free(p);
  EXPECT_THROW(pool.free(p), InternalError);
}

TEST(Pool, SameCallsGiveSameAddresses) {
  const auto run = [] {
    Pool pool({1 << 16}, Poison::kOff);
    char* base = static_cast<char*>(pool.allocate({64}, 0));
    std::vector<std::ptrdiff_t> offsets;
    std::vector<void*> live;
    for (int i = 0; i < 40; ++i) {
      if (i % 3 == 2)
        pool.free(live[live.size() / 2]), live.erase(live.begin() + static_cast<std::ptrdiff_t>(live.size() / 2));
      live.push_back(pool.allocate({64 * (1 + i % 5)}, 0));
      offsets.push_back(static_cast<char*>(live.back()) - base);
    }
    return offsets;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace sextant
