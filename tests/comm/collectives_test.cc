// The communicator, on threads and on processes.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"
#include "sextant/ops/op.h"
#include "sextant/runtime/comm/threads.h"
#include "tests/support/ranks.h"

namespace sextant {
namespace {

double value(int rank, std::int64_t i) {
  return RandomStream(1, Purpose::kTest, static_cast<std::uint64_t>(rank)).uniform(static_cast<std::uint64_t>(i)) - 0.5;
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, Ranks, testing::Values(1, 2, 3, 4, 8));

TEST_P(Ranks, AllReduceSumsInRankOrderWithTheSameBitsEverywhereAndCountsItsBytes) {
  const int n = GetParam();
  for (const std::int64_t count : {0, 1, 2, 7, 5000}) {
    run_ranks(n, [&](Communicator& c) {
      std::vector<double> data(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = value(c.rank(), i);
      c.all_reduce(payload(std::span(data))).wait();
      const std::int64_t own = slice_of(count, n, c.rank()).size();
      EXPECT_EQ(c.received().value, n == 1 ? 0 : ((n - 1) * own + count - own) * 8);
      for (std::int64_t i = 0; i < count; ++i) {
        double sum = value(0, i);
        for (int r = 1; r < n; ++r) sum += value(r, i);
        EXPECT_EQ(data[static_cast<std::size_t>(i)], sum);
      }
    });
  }
}

TEST_P(Ranks, SumsKeepThePrecisionOfTheirType) {  // T19: bf16, which has no 1 + 2^-9, would give 4096
  const int n = GetParam();
  run_ranks(n, [&](Communicator& c) {
    std::vector<float> total(1, 0), part(1);
    for (int i = 0; i < 4096 / n; ++i) {
      part[0] = 1 + 0x1p-9f;
      c.all_reduce(payload(std::span(part))).wait();
      total[0] += part[0];
    }
    EXPECT_EQ(total[0], static_cast<float>(4096 / n * n) * (1 + 0x1p-9f));
  });
}

TEST_P(Ranks, ReduceScatterThenAllGatherIsAllReduceWithTheSameBytes) {
  const int n = GetParam();
  const std::int64_t count = 1003;
  run_ranks(n, [&](Communicator& c) {
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
  run_ranks(n, [&](Communicator& c) {
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
  run_ranks(n, [&](Communicator& c) {
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
  run_ranks(n, [&](Communicator& c) {
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
  run_ranks(2, [](Communicator& c) {
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
  run_ranks(n, [&](Communicator& c) {
    std::vector<std::vector<double>> data(200, std::vector<double>(3, 1.0));
    std::vector<Pending> works;
    for (auto& d : data) works.push_back(c.all_reduce(payload(std::span(d))));
    works.back().wait();
    for (auto& w : works) w.wait();
    for (const auto& d : data) EXPECT_EQ(d, std::vector<double>(3, n));
  });
}

TEST(Groups, TwoOfTheSameMembersDoNotMix) {
  run_ranks(2, [](Communicator& c) {
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
  run_ranks(6, [](Communicator& c) {  // 2 x 3
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

// Ranks wait in one group while another one needs them: whoever waits moves all groups on.
TEST(Groups, WaitingInOneMovesTheOthersOn) {
  run_ranks(3, [](Communicator& c) {
    const auto xy = c.rank() < 2 ? c.group({0, 1}) : nullptr, yz = c.rank() > 0 ? c.group({1, 2}) : nullptr,
               xz = c.rank() != 1 ? c.group({0, 2}) : nullptr;
    std::vector<double> a(100, 1), b(100, 1);
    if (c.rank() == 0) {
      Pending with_one = xy->all_reduce(payload(std::span(a)), "xy");
      xz->all_reduce(payload(std::span(b)), "xz").wait();
      with_one.wait();
    } else if (c.rank() == 1) {
      xy->all_reduce(payload(std::span(a)), "xy").wait();
      yz->all_reduce(payload(std::span(b)), "yz").wait();
    } else {
      yz->all_reduce(payload(std::span(a)), "yz").wait();
      xz->all_reduce(payload(std::span(b)), "xz").wait();
    }
    EXPECT_EQ(a[99] + b[99], 4);
  });
}

TEST_P(Ranks, MoreMessagesThanThereAreDesksFor) {
  const int n = GetParam();
  if (n == 1) return;
  run_ranks(n, [&](Communicator& c) {
    constexpr int kCount = 600;
    const int to = (c.rank() + 1) % n, from = (c.rank() + n - 1) % n;
    std::vector<std::int32_t> out(kCount), in(kCount, -1);
    std::vector<Pending> works;
    for (int i = 0; i < kCount; ++i)
      works.push_back(c.recv({&in[static_cast<std::size_t>(i)], 1, DType::kI32}, from, i % 7));
    for (int i = 0; i < kCount; ++i) {
      out[static_cast<std::size_t>(i)] = 1000 * c.rank() + i;
      works.push_back(c.send({&out[static_cast<std::size_t>(i)], 1, DType::kI32}, to, i % 7));
    }
    for (Pending& w : works) w.wait();
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(in[static_cast<std::size_t>(i)], 1000 * from + i);
  });
}

// Payload that every rank receives, against the closed forms of docs/collectives.md, for sizes that n divides and not.
TEST_P(Ranks, BytesOfEveryCollectiveAreTheirClosedForm) {
  const int n = GetParam();
  for (const std::int64_t count : {0, 1, 7, 840, 1000, 4099})
    run_ranks(n, [&](Communicator& c) {
      const std::int64_t own = slice_of(count, n, c.rank()).size();
      std::vector<double> whole(static_cast<std::size_t>(count)), part(static_cast<std::size_t>(own));
      std::int64_t before = 0;
      const auto took = [&] { return (c.received().value - std::exchange(before, c.received().value)) / 8; };
      std::vector<std::int64_t> measured;
      const auto note = [&](std::int64_t expected) {
        measured.push_back(took());
        EXPECT_EQ(measured.back(), expected) << count << " elements, operation " << measured.size();
      };
      c.all_reduce(payload(std::span(whole))).wait();
      note((n - 1) * own + (count - own));
      c.reduce_scatter(payload(std::span(whole)), payload(std::span(part))).wait();
      note((n - 1) * own);
      c.all_gather(payload(std::span(part)), payload(std::span(whole))).wait();
      note(count - own);
      c.broadcast(payload(std::span(whole)), n - 1).wait();
      note(c.rank() == n - 1 ? 0 : count);
      c.barrier().wait();
      note(0);
      // The sum over ranks, or each rank's where n divides, is what the planner is told.
      std::vector<double> all(measured.begin(), measured.end());
      c.all_reduce(payload(std::span(all))).wait();
      const CollectiveKind kinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                      CollectiveKind::kAllGather};
      for (std::size_t k = 0; k < 3 && count % n == 0; ++k)
        EXPECT_EQ(all[k] * 8, static_cast<double>(received_bytes(kinds[k], {count * 8}, n).value * n));
    });
}

// DeepSpeed #1522: of three values, ranks beyond the third own none, and yet the norm is the same on all.
TEST_P(Ranks, OneThatOwnsNothingTakesPartInTheNorm) {
  const int n = GetParam();
  run_ranks(n, [&](Communicator& c) {
    std::vector<double> gradients{1, 2, 2}, own(static_cast<std::size_t>(slice_of(3, n, c.rank()).size()));
    c.reduce_scatter(payload(std::span(gradients)), payload(std::span(own))).wait();
    double squares = 0;
    for (const double g : own) squares += g * g;
    c.all_reduce({&squares, 1, DType::kF64}).wait();
    EXPECT_EQ(squares, 9.0 * n * n);
  });
}

TEST_P(Ranks, AllGatherMayFindTheOwnSliceInItsPlace) {
  const int n = GetParam();
  run_ranks(n, [&](Communicator& c) {
    std::vector<std::int32_t> all(1003, -1);
    const Slice own = slice_of(1003, n, c.rank());
    for (std::int64_t i = own.begin; i < own.end; ++i) all[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
    c.all_gather({all.data() + own.begin, own.size(), DType::kI32}, payload(std::span(all))).wait();
    for (std::int32_t i = 0; i < 1003; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
  });
}

TEST(Memory, OfTheWindowIsReducedInPlaceAndGivenBack) {
  run_ranks(2, [](Communicator& c) {
    for (int round = 0; round < 3; ++round) {
      const Region region = c.memory({1 << 22});
      const std::span<float> data(reinterpret_cast<float*>(region.data()), 1 << 20);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(c.rank() + 1);
      c.all_reduce(payload(data)).wait();
      EXPECT_EQ(data.front() + data.back(), 6);
    }
  });
}

std::string error_of(int ranks, const std::function<void(Communicator&)>& body) {
  try {
    run_threads(ranks, body, {.timeout = Seconds{0.3}});
  } catch (const std::exception& e) {
    return e.what();
  }
  return "none";
}

TEST(Errors, SayWhatBothSidesBring) {
  EXPECT_EQ(
      error_of(3,
               [&](Communicator& c) {
                 std::vector<double> own(c.rank() == 2 ? 5 : 4);
                 c.all_reduce(payload(std::span(own)), "weights").wait();
               }),
      "count in collective 0 of ranks 0, 1, 2: rank 2 brings all_reduce(5 x f64) at weights, rank 0 all_reduce(4 x "
      "f64) at weights");
  EXPECT_EQ(error_of(4,
                     [](Communicator& c) {
                       if (c.rank() == 3) throw InvalidInput("rank 3 has no data");
                       double x = 1;
                       c.all_reduce({&x, 1, DType::kF64}).wait();
                     }),
            "rank 3 has no data");
  EXPECT_EQ(error_of(2,
                     [](Communicator& c) {
                       double x = 1;
                       { const Pending dropped = c.all_reduce({&x, 1, DType::kF64}); }
                       c.barrier().wait();
                     }),
            "a started operation was never waited for");
}

// A rank that tests a message again and again ends too.
TEST(Errors, ReachWhoOnlyTests) {
  EXPECT_EQ(error_of(2,
                     [](Communicator& c) {
                       double x = 1;
                       if (c.rank() == 1) throw InvalidInput("rank 1 ends");
                       Pending message = c.recv({&x, 1, DType::kF64}, 1, 3);
                       while (!message.test()) {
                       }
                     }),
            "rank 1 ends");
}

}  // namespace
}  // namespace sextant

int main(int argc, char** argv) { return sextant::run_tests(argc, argv); }
