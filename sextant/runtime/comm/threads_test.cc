#include "sextant/runtime/comm/threads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"

namespace sextant {
namespace {

double value(int rank, std::int64_t i) {
  return RandomStream(1, Purpose::kTest, static_cast<std::uint64_t>(rank)).uniform(static_cast<std::uint64_t>(i)) - 0.5;
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Ranks, testing::Values(1, 2, 3, 4, 8));

TEST_P(Ranks, AllReduceSumsInRankOrderWithTheSameBitsEverywhereAndCountsItsBytes) {
  const int n = GetParam();
  for (const std::int64_t count : {0, 1, 2, 7, 5000}) {
    std::vector<std::vector<double>> results(static_cast<std::size_t>(n));
    run_threads(n, [&](Communicator& c) {
      std::vector<double> data(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = value(c.rank(), i);
      c.all_reduce(payload(std::span(data))).wait();
      const std::int64_t own = slice_of(count, n, c.rank()).size();
      EXPECT_EQ(c.received().value, n == 1 ? 0 : ((n - 1) * own + count - own) * 8);
      results[static_cast<std::size_t>(c.rank())] = data;
    });
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = value(0, i);
      for (int r = 1; r < n; ++r) sum += value(r, i);
      for (int r = 0; r < n; ++r) EXPECT_EQ(results[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)], sum);
    }
  }
}

TEST_P(Ranks, ReduceScatterThenAllGatherIsAllReduceWithTheSameBytes) {
  const int n = GetParam();
  const std::int64_t count = 1003;
  run_threads(n, [&](Communicator& c) {
    std::vector<float> whole(count), reduced(count),
        part(static_cast<std::size_t>(slice_of(count, n, c.rank()).size()));
    for (std::int64_t i = 0; i < count; ++i)
      whole[static_cast<std::size_t>(i)] = reduced[static_cast<std::size_t>(i)] =
          static_cast<float>(value(c.rank(), i));
    c.all_reduce(payload(std::span(reduced))).wait();
    const Bytes once = c.received();
    c.reduce_scatter(payload(std::span(whole)), payload(std::span(part))).wait();
    c.all_gather(payload(std::span(part)), payload(std::span(whole))).wait();
    EXPECT_EQ(whole, reduced);
    EXPECT_EQ(c.received().value, 2 * once.value);
  });
}

TEST_P(Ranks, AllToAllWithUnevenCountsAndZeros) {
  const int n = GetParam();
  // Rank r sends (r + 2 q) % 4 elements to rank q.
  const auto elements = [](int from, int to) { return (from + 2 * to) % 4; };
  run_threads(n, [&](Communicator& c) {
    std::vector<std::int64_t> in_counts, out_counts;
    std::vector<std::int32_t> in, expected;
    for (int q = 0; q < n; ++q) {
      in_counts.push_back(elements(c.rank(), q));
      out_counts.push_back(elements(q, c.rank()));
      for (int i = 0; i < elements(c.rank(), q); ++i) in.push_back(100 * c.rank() + 10 * q + i);
      for (int i = 0; i < elements(q, c.rank()); ++i) expected.push_back(100 * q + 10 * c.rank() + i);
    }
    std::vector<std::int32_t> out(expected.size());
    c.all_to_all(payload(std::span(in)), in_counts, payload(std::span(out)), out_counts).wait();
    EXPECT_EQ(out, expected);
  });
}

TEST_P(Ranks, BroadcastFromEveryRoot) {
  const int n = GetParam();
  run_threads(n, [&](Communicator& c) {
    for (int root = 0; root < n; ++root) {
      std::vector<std::int64_t> data(5, c.rank() == root ? 40 + root : -1);
      c.broadcast(payload(std::span(data)), root).wait();
      EXPECT_EQ(data, std::vector<std::int64_t>(5, 40 + root));
    }
    EXPECT_EQ(c.received().value, (n - 1) * 40);
  });
}

TEST_P(Ranks, MessagesMatchByTagInAnyOrder) {
  const int n = GetParam();
  if (n == 1) return;
  run_threads(n, [&](Communicator& c) {
    const int to = (c.rank() + 1) % n, from = (c.rank() + n - 1) % n;
    double a = c.rank(), b = 100 + c.rank(), x = 0, y = 0;
    Pending send_a = c.send({&a, 1, DType::kF64}, to, 1), send_b = c.send({&b, 1, DType::kF64}, to, 2);
    Pending recv_b = c.recv({&y, 1, DType::kF64}, from, 2), recv_a = c.recv({&x, 1, DType::kF64}, from, 1);
    recv_b.wait(), recv_a.wait(), send_a.wait(), send_b.wait();
    EXPECT_EQ(x, from);
    EXPECT_EQ(y, 100 + from);
    EXPECT_EQ(c.received().value, 16);
  });
}

TEST(Messages, OfOneTagArriveInTheOrderAskedForHoweverTheyAreWaitedFor) {
  run_threads(2, [](Communicator& c) {
    double a = 1, b = 2;
    if (c.rank() == 0) {
      Pending first = c.send({&a, 1, DType::kF64}, 1, 7), second = c.send({&b, 1, DType::kF64}, 1, 7);
      first.wait(), second.wait();
    } else {
      Pending first = c.recv({&a, 1, DType::kF64}, 0, 7), second = c.recv({&b, 1, DType::kF64}, 0, 7);
      a = b = 0;
      second.wait(), first.wait();
      EXPECT_EQ(a, 1);
      EXPECT_EQ(b, 2);
    }
  });
}

TEST_P(Ranks, ManyOperationsInFlightFinishInOrder) {
  const int n = GetParam();
  run_threads(n, [&](Communicator& c) {
    std::vector<std::vector<double>> data(200, std::vector<double>(3, 1.0));
    std::vector<Pending> works;
    for (auto& d : data) works.push_back(c.all_reduce(payload(std::span(d))));
    works.back().wait();
    for (auto& w : works) w.wait();
    for (const auto& d : data) EXPECT_EQ(d, std::vector<double>(3, n));
  });
}

TEST(Groups, TwoOfTheSameMembersDoNotMix) {
  run_threads(2, [](Communicator& c) {
    const auto one = c.group({0, 1}), two = c.group({0, 1});
    double a = 1, b = 10;
    Pending first = one->all_reduce({&a, 1, DType::kF64});
    two->all_reduce({&b, 1, DType::kF64}).wait();
    first.wait();
    EXPECT_EQ(a, 2);
    EXPECT_EQ(b, 20);
    EXPECT_EQ(c.received().value, 0);
  });
}

TEST(Groups, RowsAndColumnsOfAGridAndReuse) {
  run_threads(6, [](Communicator& c) {  // 2 x 3
    const int row = c.rank() / 3, column = c.rank() % 3;
    const auto in_row = c.group({row * 3, row * 3 + 1, row * 3 + 2});
    const auto in_column = c.group({column, column + 3});
    double a = c.rank(), b = c.rank();
    in_row->all_reduce({&a, 1, DType::kF64}).wait();
    in_column->all_reduce({&b, 1, DType::kF64}).wait();
    EXPECT_EQ(a, 9 * row + 3);
    EXPECT_EQ(b, 2 * column + 3);
  });
}

std::string error_of(int ranks, const std::function<void(Communicator&)>& body, ThreadOptions options = {}) {
  try {
    run_threads(ranks, body, options);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "none";
}

TEST(Errors, DivergingRanksAreNamed) {
  std::vector<double> d(8);
  std::vector<float> f(8);
  EXPECT_EQ(
      error_of(3,
               [&](Communicator& c) {
                 std::vector<double> own(c.rank() == 2 ? 5 : 4);
                 c.all_reduce(payload(std::span(own))).wait();
               }),
      "ranks differ in collective 0 of their group: rank 0 brings all_reduce(4 x f64), rank 2 all_reduce(5 x f64)");
  EXPECT_EQ(
      error_of(2,
               [&](Communicator& c) {
                 if (c.rank() == 0)
                   c.all_reduce(payload(std::span(d))).wait();
                 else
                   c.all_reduce(payload(std::span(f))).wait();
               }),
      "ranks differ in collective 0 of their group: rank 0 brings all_reduce(8 x f64), rank 1 all_reduce(8 x f32)");
  EXPECT_EQ(error_of(2,
                     [&](Communicator& c) {
                       c.barrier().wait();
                       std::vector<double> own(4);
                       if (c.rank() == 0)
                         c.barrier().wait();
                       else
                         c.broadcast(payload(std::span(own)), 1).wait();
                     }),
            "ranks differ in collective 1 of their group: rank 0 brings barrier, rank 1 broadcast(4 x f64 from 1)");
}

TEST(Errors, TheReasonOfAFailingRankWinsAndNobodyHangs) {
  EXPECT_EQ(error_of(4,
                     [](Communicator& c) {
                       if (c.rank() == 3) throw InvalidInput("rank 3 has no data");
                       double x = 1;
                       c.all_reduce({&x, 1, DType::kF64}).wait();
                     }),
            "rank 3 has no data");
}

TEST(Errors, ADroppedOperationEndsTheRun) {
  EXPECT_EQ(error_of(2,
                     [](Communicator& c) {
                       double x = 1;
                       { const Pending dropped = c.all_reduce({&x, 1, DType::kF64}); }
                     }),
            "a started operation was never waited for");
}

TEST(Errors, AMissingRankIsNamedAfterTheTimeout) {
  const std::string text = error_of(3,
                                    [](Communicator& c) {
                                      double x = 1;
                                      if (c.rank() == 1)
                                        std::this_thread::sleep_for(std::chrono::milliseconds(600));
                                      else
                                        c.all_reduce({&x, 1, DType::kF64}).wait();
                                    },
                                    {.timeout = Seconds{0.1}});
  EXPECT_NE(text.find("in all_reduce(1 x f64), number 0 of its group; missing: rank 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace sextant
