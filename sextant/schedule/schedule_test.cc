#include "sextant/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

std::string list(const std::string& kind, ScheduleShape shape, int rank) {
  return to_string(make_schedule(find_schedule(kind), shape).by_rank.at(static_cast<std::size_t>(rank)));
}

std::string error_of(const auto& what) {
  try {
    what();
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "no error";
}

// Orders from the papers and their code, each checked by hand.
TEST(Schedule, GoldenOrders) {
  EXPECT_EQ(list("naive", {2, 2}, 1), "1F0 1B0 1F1 1B1");
  EXPECT_EQ(list("gpipe", {2, 3}, 0), "0F0 0F1 0F2 0B0 0B1 0B2");
  EXPECT_EQ(list("1f1b", {4, 8}, 0), "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7");
  EXPECT_EQ(list("1f1b", {4, 8}, 2), "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7");
  EXPECT_EQ(list("interleaved", {2, 4, 2, 2}, 0), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(list("interleaved", {2, 4, 2, 2}, 1), "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
  EXPECT_EQ(list("interleaved", {2, 5, 2, 3}, 0),
            "0F0 0F1 0F2 2F0 2F1 2F2 2B0 0F3 2B1 0F4 2B2 2F3 0B0 2F4 0B1 0B2 2B3 2B4 0B3 0B4");
  EXPECT_EQ(list("interleaved", {2, 5, 2, 3}, 1),
            "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0 1F4 1B1 3F3 1B2 3F4 3B3 3B4 1B3 1B4");
  EXPECT_EQ(list("bfs", {2, 2, 2}, 0), "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1");
  EXPECT_EQ(list("bfs", {2, 2, 2}, 1), "1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1");
  EXPECT_EQ(list("zb-h1", {4, 8}, 0),
            "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7");
  EXPECT_EQ(list("zb-h1", {4, 8}, 1),
            "1F0 1F1 1F2 1I0 1F3 1I1 1W0 1F4 1I2 1W1 1F5 1I3 1W2 1F6 1I4 1W3 1F7 1I5 1W4 1I6 1W5 1I7 1W6 1W7");
  EXPECT_EQ(list("zb-h1", {4, 8}, 3),
            "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 3W5 3W6 3W7");
  EXPECT_EQ(list("zb-h2", {4, 8}, 0),
            "0F0 0F1 0F2 0F3 0F4 0F5 0F6 0I0 0W0 0F7 0I1 0W1 0I2 0W2 0I3 0W3 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7");
  EXPECT_EQ(list("zb-h2", {4, 8}, 3),
            "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3F4 3I4 3F5 3I5 3F6 3I6 3W0 3F7 3I7 3W1 3W2 3W3 3W4 3W5 3W6 3W7");
  EXPECT_EQ(list("zb-v", {2, 4}, 0),
            "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3");
  EXPECT_EQ(list("zb-v", {2, 4}, 1),
            "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3");
  EXPECT_EQ(list("dualpipe-v", {2, 4}, 0),
            "0F0 0F1 0F2 3F0 3I0 3W0 3F1 [0F3+3B1] [3F2+0B0] 3B2 [3F3+0B1] 3B3 0I2 0W2 0I3 0W3");
  EXPECT_EQ(list("dualpipe-v", {2, 4}, 1),
            "1F0 2F0 1F1 2F1 1F2 2B0 [2F2+1B0] [1F3+2B1] [2F3+1B1] 2B2 1B2 2I3 1I3 2W3 1W3");
  EXPECT_EQ(list("dualpipe", {4, 8}, 0),
            "0F0 0F1 0F2 3'F0 3'I0 3'W0 3'F1 [0F3+3'B1] [3'F2+0B0] 3'B2 [3'F3+0B1] 3'B3 0I2 0W2 0I3 0W3");
  EXPECT_EQ(list("dualpipe", {4, 8}, 1),
            "1F0 2'F0 1F1 2'F1 1F2 2'B0 [2'F2+1B0] [1F3+2'B1] [2'F3+1B1] 2'B2 1B2 2'I3 1I3 2'W3 1W3");
  EXPECT_EQ(list("dualpipe", {4, 8}, 2),
            "1'F0 2F0 1'F1 2F1 1'F2 2B0 [2F2+1'B0] [1'F3+2B1] [2F3+1'B1] 2B2 1'B2 2I3 1'I3 2W3 1'W3");
  EXPECT_EQ(list("dualpipe", {4, 8}, 3),
            "0'F0 0'F1 0'F2 3F0 3I0 3W0 3F1 [0'F3+3B1] [3F2+0'B0] 3B2 [3F3+0'B1] 3B3 0'I2 0'W2 0'I3 0'W3");
}

// All shapes up to P 8, V 4, M 32 that a kind takes.
void for_each_valid(const auto& body) {
  for (const ScheduleKind& kind : schedule_kinds())
    for (int p = 1; p <= 8; ++p)
      for (int v = kind.least_virtual; v <= std::min(4, kind.most_virtual); ++v)
        for (int m = 1; m <= 32; ++m) {
          const ScheduleShape shape{p, m, v};
          if (violations(kind, shape).empty()) body(kind, shape);
        }
}

TEST(Schedule, EveryActionOnceAndInOrder) {
  int seen = 0;
  for_each_valid([&](const ScheduleKind& kind, const ScheduleShape& shape) {
    const Schedule s = make_schedule(kind, shape);
    const auto found = faults(s);
    EXPECT_TRUE(found.empty()) << kind.id << " P " << shape.num_ranks << " V " << shape.virtual_stages << " M "
                               << shape.num_microbatches << ": " << found.front().what;
    ++seen;
  });
  EXPECT_GT(seen, 3000);
}

// Weight gradients of a stage are summed in the order of its microbatches under every schedule, so that the bits of
// the sum do not depend on it.
TEST(Schedule, WeightGradientsComeInTheOrderOfMicrobatches) {
  for_each_valid([](const ScheduleKind& kind, const ScheduleShape& shape) {
    const Schedule s = make_schedule(kind, shape);
    for (const auto& actions : s.by_rank) {
      std::map<std::pair<int, bool>, int> next;
      for (const Action& a : actions)
        if (a.kind == ActionKind::kW || a.kind == ActionKind::kB) {
          ASSERT_EQ((next[{a.stage, a.mirrored}]++), a.microbatch) << kind.id << " " << to_string(a);
        }
    }
  });
}

TEST(Schedule, CsvIsReadAsItWasWritten) {
  for_each_valid([](const ScheduleKind& kind, const ScheduleShape& shape) {
    const Schedule s = make_schedule(kind, shape), again = parse_csv(to_csv(s), "x.csv");
    ASSERT_EQ(again.num_ranks, s.num_ranks);
    ASSERT_EQ(again.num_stages, s.num_stages);
    ASSERT_EQ(again.num_microbatches, s.num_microbatches);
    ASSERT_EQ(again.is_mirrored, s.is_mirrored);
    for (std::size_t r = 0; r < s.by_rank.size(); ++r) ASSERT_EQ(to_string(again.by_rank[r]), to_string(s.by_rank[r]));
  });
}

TEST(Schedule, CsvAsPyTorchWritesIt) {
  const Schedule s = parse_csv("0F0,0F1,,,0B0,(0F2;0B1)OVERLAP_F_B,0B2\r\n,1F0,1B0,1F1,1B1,1F2,1B2\r\n", "x.csv");
  EXPECT_EQ(to_string(s.by_rank[0]), "0F0 0F1 0B0 [0F2+0B1] 0B2");
  EXPECT_EQ(s.num_microbatches, 3);
}

TEST(Schedule, BadCsv) {
  const auto error = [](const std::string& text) { return error_of([&] { parse_csv(text, "x.csv"); }); };
  EXPECT_EQ(error(""), "x.csv: has no actions; a row is a rank, a cell an action as 0F0");
  EXPECT_EQ(error("0F0,0B0\n1F0,1G0\n"), "x.csv:2: cell 2: found 1G0: expected F, I, W or B behind the stage");
  EXPECT_EQ(error("0F0,0SEND_F0,0B0\n"),
            "x.csv:1: cell 2: found 0SEND_F0: only F, I, W and B are read: messages, gathers and reductions are "
            "derived; write the compute-only form");
  EXPECT_EQ(error("F0\n"), "x.csv:1: cell 1: found F0: expected a stage, as in 2F3 (stage 2, forward, microbatch 3)");
  EXPECT_EQ(error("0F0,0B0,(0F1,0B1)\n"), "x.csv:1: cell 3: found (0F1: expected a pair as in (0F3;3B1)OVERLAP_F_B");
  EXPECT_EQ(error("0F0,0B0,0F1\n1F0,1F0,1B0,1B1\n"),
            "x.csv: is no schedule of 2 stages and 2 microbatches:\n"
            "  - x.csv:1: rank 0: 0B1 is missing; every stage runs every microbatch once\n"
            "  - x.csv:2: rank 1: 1F0 comes twice; leave one of them out\n"
            "  - x.csv:2: rank 1: 1B1 comes before 1F1; it needs what that keeps\n"
            "  - x.csv:2: rank 1: 1F1 is missing; every stage runs every microbatch once");
  EXPECT_EQ(error("0F0,0I0,0B0,1F0,1B0\n"),
            "x.csv: is no schedule of 2 stages and 1 microbatches:\n"
            "  - x.csv:1: rank 0: 0B0 repeats a backward pass: use either 0B0 or 0I0 and 0W0\n"
            "  - x.csv:1: rank 0: 0W0 is missing; every stage runs every microbatch once");
  EXPECT_EQ(
      error("0F0,0B0,1F0,1B0\n0F1,0B1,1F1,1B1\n").substr(0, 169),
      "x.csv: is no schedule of 2 stages and 2 microbatches:\n  - x.csv:2: rank 1: 0F1 is on this rank, but stage "
      "0 runs on rank 0; keep a stage on one rank\n  - x.csv:2: rank 1:");
  EXPECT_EQ(error("0F0,0B0\n,,\n1F0,1B0\n \n\n"),
            "x.csv: is no schedule of 2 stages and 1 microbatches:\n"
            "  - x.csv:2: rank 1: has no actions; leave it out, or give it a stage");
  EXPECT_NE(error("9F0,9B0\n").find("stage 0 has no action on any rank"), std::string::npos);
  EXPECT_EQ(
      error("0F999999,0B999999\n"),
      "x.csv: its greatest stage 0 and microbatch 999999 make 2000000 actions at least, but there are 2; is one of "
      "them a slip?");
}

TEST(Schedule, BadShapes) {
  const auto error = [](const std::string& id, ScheduleShape shape) {
    return error_of([&] { schedule_of(id, shape); });
  };
  EXPECT_EQ(error("zbv", {2, 4}).substr(0, 51), "there is no schedule zbv; did you mean zb-v? (bfs, ");
  EXPECT_EQ(error("dualpipe", {3, 5}),
            "schedule dualpipe does not go with this shape:\n"
            "  - pipeline ranks = 3 is odd, and its two directions meet in the middle; use 2 or 4\n"
            "  - microbatches = 5 is less than twice the 3 pipeline ranks; use at least 6");
  EXPECT_EQ(error("dualpipe", {4, 9}),
            "schedule dualpipe does not go with this shape:\n"
            "  - microbatches = 9 is odd, and each direction takes half of them; use 8 or 10");
  EXPECT_EQ(error("dualpipe-v", {4, 7}),
            "schedule dualpipe-v does not go with this shape:\n"
            "  - microbatches = 7 is less than twice the 4 pipeline ranks; use at least 8");
  EXPECT_EQ(
      error("interleaved", {4, 8, 2, 3}),
      "schedule interleaved does not go with this shape:\n"
      "  - group = 3 is less than the 4 pipeline ranks, and ranks would wait for each other; use group = 4 or more");
  EXPECT_EQ(error("interleaved", {4, 5, 2}), "no error");  // only slow
  EXPECT_EQ(error("interleaved", {4, 5, 3}),
            "schedule interleaved does not go with this shape:\n"
            "  - microbatches = 5 in groups of 4 leave a last group of 1, less than the 4 pipeline ranks, and with 3 "
            "virtual stages ranks would wait for each other; use group = 5, or microbatches = 4 or 8");
  EXPECT_EQ(error("interleaved", {4, 8, 1}),
            "schedule interleaved does not go with this shape:\n"
            "  - virtual stages = 1, but interleaved has at least 2 a rank; use 2, or 1f1b for one a rank");
  EXPECT_EQ(error("1f1b", {4, 8, 2, 4}),
            "schedule 1f1b does not go with this shape:\n"
            "  - virtual stages = 2, but 1f1b has exactly 1 a rank; use 1\n"
            "  - group = 4, but 1f1b has none; leave it out (interleaved has one)");
  EXPECT_EQ(error("gpipe", {0, 0}),
            "schedule gpipe does not go with this shape:\n"
            "  - pipeline ranks = 0; use 1 to 16384\n"
            "  - microbatches = 0; use 1 to 1048576");
}

}  // namespace
}  // namespace sextant
