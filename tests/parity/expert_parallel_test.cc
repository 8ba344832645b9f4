// The proof of expert parallelism: every way to spread experts over ranks computes what one rank computes.
#include <gtest/gtest.h>

#include <limits>

#include "sextant/base/str.h"
#include "tests/support/parity.h"

namespace sextant {
namespace {

constexpr int kBatch = 8;

ProofRun run_with(const ModelConfig& model, Plan plan, std::int64_t microbatches = 2) {
  ProofRun run = run_of(model, kBatch, plan.dp_shard, microbatches, {2000}, plan.dp_replicate);
  plan.microbatch_size = run.plan.microbatch_size, plan.num_microbatches = run.plan.num_microbatches;
  plan.bucket = run.plan.bucket;
  if (plan.zero >= 2) plan.reduce = GradientReduce::kMicrobatch;
  run.plan = plan;
  return run;
}

std::string name_of(const Plan& p) {
  return str("replicas ", p.dp_replicate, " dp ", p.dp_shard, " cp ", p.cp, " tp ", p.tp,
             p.sequence_parallel ? " sp" : "", " pp ", p.pp, " ep ", p.ep, " etp ", p.etp, " zero ", p.zero, " ",
             p.schedule, p.recompute.full ? " recompute" : "");
}

void expect_one_rank(const ModelConfig& model, const std::vector<Plan>& plans) {
  const ProofOutcome wanted = prove(run_with(model, {}, 1));
  for (const Plan& plan : plans) expect_equal(prove(run_with(model, plan)), wanted, name_of(plan));
}

std::vector<Plan> grids() {
  return {{.dp_shard = 2, .ep = 2},
          {.dp_shard = 4, .ep = 2},
          {.dp_shard = 4, .ep = 4},
          {.tp = 2},            // experts whole on both, tokens in slices
          {.tp = 2, .ep = 2},   // ep takes tp's ranks
          {.tp = 2, .etp = 2},  // each expert in halves
          {.dp_shard = 2, .ep = 1, .etp = 2},
          {.dp_shard = 2, .tp = 2, .ep = 4, .sequence_parallel = true},
          {.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .sequence_parallel = true},
          {.dp_shard = 2, .tp = 2, .ep = 2, .sequence_parallel = true},
          {.dp_shard = 2, .cp = 2, .ep = 4, .cp_slices = Slices::kZigzag},
          {.dp_shard = 2, .cp = 2, .ep = 2, .etp = 2, .cp_kind = CpKind::kUlysses},
          {.dp_replicate = 2, .dp_shard = 2, .ep = 2},
          {.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4, .etp = 2, .sequence_parallel = true}};
}

TEST(ExpertParallel, EveryGridEqualsOneRank) { expect_one_rank(tiny_mixture(), grids()); }
TEST(ExpertParallel, EveryGridEqualsOneRankWithSharedExperts) { expect_one_rank(tiny_mixture(true), grids()); }

// Experts are sharded over fewer ranks than all else, or over none.
TEST(ExpertParallel, EveryZeroStageEqualsOneRank) {
  std::vector<Plan> plans;
  for (const int zero : {0, 1, 2, 3})
    for (Plan plan : {Plan{.dp_shard = 4, .ep = 2}, Plan{.dp_shard = 4, .ep = 4},
                      Plan{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2, .sequence_parallel = true},
                      Plan{.tp = 4, .ep = 2, .sequence_parallel = true}}) {
      plan.zero = zero;
      plans.push_back(plan);
    }
  expect_one_rank(tiny_mixture(true), plans);
}

TEST(ExpertParallel, PipelinesAndRecomputationEqualOneRank) {
  std::vector<Plan> plans;
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v", "interleaved"})
    for (const bool full : {false, true}) {
      Plan plan{.dp_shard = 2, .tp = 2, .pp = 2, .ep = 2, .sequence_parallel = true};
      plan.zero = 1, plan.schedule = schedule, plan.recompute.full = full;
      plans.push_back(plan);
    }
  for (const std::vector<std::string>& ops : {std::vector<std::string>{"act"}, {"norm", "act"}}) {
    Plan plan{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .sequence_parallel = true};
    plan.recompute.ops = ops, plan.w_inputs = WInputs::kKeep;
    plans.push_back(plan);
  }
  expect_one_rank(tiny_mixture(true), plans);
}

// E2: the router sends every token to the first expert: the others, and the ranks that hold only them, have no rows.
TEST(ExpertParallel, ExpertsThatNobodyVisits) {
  ModelConfig model = tiny_mixture();
  model.mixture.router.top_k = 1, model.mixture.router.normalises = false;
  model.mixture.imbalance = 0;
  model.mixture.make_room();
  const auto with_equal_scores = [](const ModelConfig& c, Sizes s) {
    Model out = build_model(c, s);
    for (Layer& layer : out.layers)
      for (Parameter& p : layer.parameters)
        if (p.spec.name.ends_with("router.w")) p.initial = {};
    return out;
  };
  ProofRun one = run_with(model, {}, 1);
  one.build = with_equal_scores;
  const ProofOutcome wanted = prove(one);
  double others = 0;
  const std::vector<double>& first_step = wanted.gradients.at("L00.expert_up.w");
  for (std::size_t i = first_step.size() / 4; i < first_step.size(); ++i) others += std::abs(first_step[i]);
  EXPECT_EQ(others, 0);
  for (const Plan& plan : {Plan{.dp_shard = 4, .ep = 4}, Plan{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2}}) {
    ProofRun run = run_with(model, plan);
    run.build = with_equal_scores;
    expect_equal(prove(run), wanted, name_of(plan));
  }
}

// No token is dropped: if one expert is visited more often than there is room for, the run ends and says so.
TEST(ExpertParallel, TooFewRowsAreAnError) {
  ModelConfig model = tiny_mixture();
  model.mixture.imbalance = 0.5;
  try {
    prove(run_with(model, {}, 1));
    FAIL();
  } catch (const InvalidInput& e) {
    EXPECT_NE(std::string(e.what()).find("raise model.expert_imbalance"), std::string::npos) << e.what();
  }
}

// Scores that are not numbers are no crowd at one expert: the step is skipped, for its loss, on every grid.
TEST(ExpertParallel, ScoresThatAreNoNumbersSkipTheStep) {
  for (const Plan& plan : {Plan{}, Plan{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .sequence_parallel = true}}) {
    ProofRun run = run_with(tiny_mixture(), plan);
    run.build = [](const ModelConfig& c, Sizes s) {
      Model out = build_model(c, s);
      for (Layer& layer : out.layers)
        for (Parameter& p : layer.parameters)
          if (p.spec.name.ends_with("router.w"))
            p.initial = {Initial::Kind::kNormal, std::numeric_limits<double>::quiet_NaN()};
      return out;
    };
    run.steps = 1;
    const ProofOutcome out = prove(run);
    EXPECT_TRUE(out.results[0].skipped) << name_of(plan);
    EXPECT_EQ(out.results[0].reason, "the loss is not a number") << name_of(plan);
  }
}

}  // namespace
}  // namespace sextant
