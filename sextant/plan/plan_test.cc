#include "sextant/plan/plan.h"

#include <gtest/gtest.h>

#include "sextant/base/errors.h"
#include "sextant/plan/pipeline_parallel.h"

namespace sextant {
namespace {

ModelConfig model() {
  ModelConfig c;
  c.layers = 2, c.width = 24, c.heads = 6, c.kv_heads = 2, c.head_width = 4, c.ffn_width = 32, c.vocabulary = 100,
  c.max_positions = 64;
  return c;
}

TEST(Plan, AValidOneHasNoViolations) {
  Plan p;
  p.dp_shard = 2, p.tp = 2, p.microbatch_size = 4;
  EXPECT_TRUE(violations(p, model(), {64, 8, DType::kF32}).empty());
}

TEST(Plan, EveryViolationAtOnceWithTheNearestValidValues) {
  Plan p;
  p.tp = 4, p.cp = 3, p.sequence_parallel = true, p.microbatch_size = 2;
  const std::vector<std::string> wanted = {
      "tp = 4 does not divide the attention heads = 6; nearest valid: 3 or 6",
      "cp = 3 does not divide the sequence = 100; nearest valid: 2 or 4",
      "cp·tp = 12 does not divide the sequence = 100; nearest valid: 10 or 20",
      "sequence = 100 is longer than the model's positions = 64; at most 64",
      "global_batch = 7 is not microbatch_size 2 x 1 data-parallel ranks x num_microbatches 1 = 2; nearest valid: "
      "global_batch = 6 or 8",
  };
  EXPECT_EQ(violations(p, model(), {100, 7, DType::kF32}), wanted);
}

TEST(Plan, KvHeadsMayBeFewerThanTheAxis) {
  ModelConfig c = model();
  c.heads = 8;
  Plan p;
  p.tp = 4;  // each of the 2 kv heads on two ranks
  EXPECT_TRUE(violations(p, c, {64, 1, DType::kF32}).empty());
  c.kv_heads = 3;
  EXPECT_EQ(violations(p, c, {64, 1, DType::kF32}),
            std::vector<std::string>{"tp = 4 is no multiple of the kv heads = 3"});
}

TEST(Plan, RanksFillDpShardAndTheBatchFillsMicrobatches) {
  const Workload w{64, 24, DType::kF32};
  const Plan filled = read_plan(parse_run_file("[plan]\ntp = 2\n", "run.toml"), "run.toml", w, 8);
  EXPECT_EQ(filled.dp_shard, 4);
  EXPECT_EQ(filled.microbatch_size, 6);
  EXPECT_EQ(filled.num_microbatches, 1);
  const Plan accumulated = read_plan(parse_run_file("[plan]\nmicrobatch_size = 2\n", "run.toml"), "run.toml", w, 3);
  EXPECT_EQ(accumulated.num_microbatches, 4);
  EXPECT_THROW(read_plan(parse_run_file("[plan]\ntp = 3\n", "run.toml"), "run.toml", w, 8), InvalidInput);
}

TEST(Placement, FirstRuleOfAnAxisDecidesAndShortDimsAreCopied) {
  MeshSizes mesh;
  mesh[Axis::kTp] = 4;
  Plan p;
  p.tp = 4, p.sequence_parallel = true;
  const Rules rules = rules_of(p);
  const auto own = [&](std::vector<Extent> dims) {
    return to_string(own_placement({.dims = std::move(dims)}, Axis::kTp, rules, mesh));
  };
  EXPECT_EQ(own({{'B', 2}, {'S', 8}, {'H', 4}, {'K', 3}}), "S(H)");
  EXPECT_EQ(own({{'B', 2}, {'S', 8}, {'G', 2}, {'K', 3}}), "S(G,2)");
  EXPECT_EQ(own({{'B', 2}, {'S', 8}, {'D', 6}}), "S(S)");
  EXPECT_EQ(own({{'D', 6}}), "R");
  EXPECT_EQ(own({{'T', 8}, {'D', 6}}), "R");
}

TEST(Stages, AreBalancedFromTheEndsInwards) {
  using Sizes = std::vector<int>;
  EXPECT_EQ(balanced_stages(34, 4), (Sizes{9, 8, 8, 9}));  // 32 layers: 8 each
  EXPECT_EQ(balanced_stages(9, 4), (Sizes{3, 2, 2, 2}));
  EXPECT_EQ(balanced_stages(11, 4), (Sizes{3, 3, 2, 3}));
  EXPECT_EQ(balanced_stages(7, 7), Sizes(7, 1));
  EXPECT_EQ(balanced_stages(5, 1), Sizes{5});
}

TEST(Plan, ReadsEveryField) {
  const Value run = parse_run_file(
      "[plan]\npp = 2\nzero = 3\nlive_units = 3\nschedule = \"zb-v\"\nvirtual_stages = 2\nstages = [1, 2, 3, 1]\n"
      "stage_border = \"whole\"\nrecompute = [\"norm\", \"act\"]\nrecompute_layers = 2\nnum_microbatches = 4\n",
      "run.toml");
  const Plan p = read_plan(run, "run.toml", {64, 8, DType::kF32}, 4);
  EXPECT_EQ(p.num_ranks(), 4);
  EXPECT_EQ(p.dp_shard, 2);
  EXPECT_EQ(p.reduce, GradientReduce::kMicrobatch);  // of zero 2 and 3
  EXPECT_EQ(p.live_units, 3);
  EXPECT_EQ(p.bucket.value, 0);  // a unit each
  EXPECT_EQ(p.stages, (std::vector<int>{1, 2, 3, 1}));
  EXPECT_EQ(p.border, StageBorder::kWhole);
  EXPECT_EQ(join(p.recompute.ops, " "), "norm act");
  EXPECT_EQ(p.recompute.layers, 2);
  EXPECT_EQ(num_stages_of(p), 4);
}

}  // namespace
}  // namespace sextant
