// The proof of data parallelism: loss, every gradient, grad norm and the weights after three SGD steps equal those of
// one rank, in float64, and every byte and the peak equal the promise. The traps of docs/traps.md by kind.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sextant/base/errors.h"
#include "sextant/runtime/train/proof.h"
#include "tests/support/parity.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny.h"

namespace sextant {
namespace {

TEST(DataParallel, EqualsOneRankForRanksAccumulationAndBuckets) {
  for (const ProofFamily& family : families_of_the_proof())
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const std::int64_t microbatches : {1, 2, 3, 4, 5, 6, 7, 8}) {
        const std::int64_t batch = ranks * microbatches;
        const ProofOutcome wanted = prove(run_of(family.model, batch, 1, 1));
        // Naive, a unit each, several units. On processes a tenth of it.
        for (const Bytes bucket : {Bytes{0}, Bytes{1}, Bytes{20000}})
          if (job_size() == 0 || (ranks == job_size() && (microbatches * 3 + bucket.value) % 10 == 1))
            expect_equal(prove(run_of(family.model, batch, ranks, microbatches, bucket)), wanted,
                         str(family.name, " ranks ", ranks, " microbatches ", microbatches, " bucket ", bucket.value));
      }
}

// The further families, on up to four ranks.
TEST(DataParallel, EveryFurtherFamilyEqualsOneRank) {
  for (const char* name : {"mistral", "olmo2", "gemma2", "gpt_neox", "gpt_neox_serial", "mpt", "mpt_alibi"})
    for (const double dropout : {0.0, 0.1}) {
      const ModelConfig model = tiny_of(name, dropout);
      const ProofOutcome wanted = prove(run_of(model, 36, 1, 1));
      for (const int ranks : {1, 2, 3, 4})
        for (const std::int64_t microbatches : {1, 3})
          if (job_size() == 0 || ranks == job_size())
            expect_equal(prove(run_of(model, 36, ranks, microbatches, {1})), wanted,
                         str(name, " ranks ", ranks, " microbatches ", microbatches, " dropout ", dropout));
    }
}

TEST(DataParallel, ReplicasAndShardsSumTheSame) {  // L6: no factor of its own at either level
  const ModelConfig model = tiny_gpt2(2);
  const ProofOutcome wanted = prove(run_of(model, 24, 1, 1));
  for (const auto& [replicas, shards] : {std::pair{2, 1}, {2, 2}, {4, 1}, {2, 3}, {3, 2}, {2, 4}})
    expect_equal(prove(run_of(model, 24, shards, 1, {1}, replicas)), wanted, str(replicas, " x ", shards));
}

TEST(DataParallel, ThreadsOfARankChangeNothing) {
  ProofRun run = run_of(tiny_llama(2), 8, 2, 2, {1});
  const ProofOutcome one = prove(run);
  run.threads = 3;
  const ProofOutcome three = prove(run);
  EXPECT_EQ(three.gradients, one.gradients);
  EXPECT_EQ(three.weights, one.weights);
}

// --- Loss scale: only sums travel, divided once by the step's valid tokens ------------------------------------------

TEST(LossScale, UnevenMicrobatchesAndRanksCountTokensNotMeans) {  // L1, L2
  for (const std::vector<int>& valid : {std::vector{1, 15}, {3, 13}, {16, 0}}) {
    ProofRun one = run_of(tiny_gpt2(2, 0), 2, 1, 1);
    one.source = samples_with_valid(37, valid);
    const ProofOutcome wanted = prove(one);
    EXPECT_EQ(wanted.results[0].tokens, 16);
    ProofRun accumulated = run_of(tiny_gpt2(2, 0), 2, 1, 2), parallel = run_of(tiny_gpt2(2, 0), 2, 2, 1, {1});
    accumulated.source = parallel.source = one.source;
    expect_equal(prove(accumulated), wanted, "two microbatches");
    expect_equal(prove(parallel), wanted, "two ranks");
  }
}

TEST(LossScale, TheReportedLossIsTheTrainedOne) {  // L8: the mean over all valid tokens of all ranks
  ProofRun run = run_of(tiny_gpt2(2, 0), 2, 2, 1);
  run.source = samples_with_valid(37, {5, 5});
  run.steps = 1;
  const double both = prove(run).results[0].loss;
  double sum = 0;
  for (const int kept : {0, 1}) {  // each rank's tokens alone
    ProofRun alone = run_of(tiny_gpt2(2, 0), 2, 1, 1);
    alone.source = samples_with_valid(37, kept == 0 ? std::vector{5, 0} : std::vector{0, 5});
    alone.steps = 1;
    sum += prove(alone).results[0].loss;
  }
  EXPECT_NEAR(both, sum / 2, 1e-12);
}

// torchtitan #1733: three accumulations of two microbatches are one batch of six, in whatever groups they come.
TEST(LossScale, SixMicrobatchesInAnyGroupAreOneBatch) {
  const ProofOutcome wanted = prove(run_of(tiny_gpt2(2), 12, 1, 1));
  for (const auto& [ranks, microbatches] : {std::pair{1, 6}, {2, 3}, {3, 2}, {2, 6}, {1, 12}})
    expect_equal(prove(run_of(tiny_gpt2(2), 12, ranks, microbatches, {1})), wanted, str(ranks, " x ", microbatches));
}

TEST(LossScale, MicrobatchSizeChangesNothing) {  // M1: 1 x 8, 2 x 4, 4 x 2 of the same samples
  const ProofOutcome wanted = prove(run_of(tiny_llama(2), 8, 1, 1));
  for (const std::int64_t microbatches : {2, 4, 8})
    expect_equal(prove(run_of(tiny_llama(2), 8, 1, microbatches)), wanted, str("microbatches ", microbatches));
}

TEST(LossScale, AccumulationIsLinear) {  // L5, L12: eight times the same sample is that sample
  ProofRun one = run_of(tiny_llama(2, 0), 1, 1, 1), eight = run_of(tiny_llama(2, 0), 8, 1, 8);
  const SampleSource source = uneven_samples(37);
  one.source = eight.source = [source](std::int64_t, const SampleView& view) { source(3, view); };
  one.steps = eight.steps = 1;
  const ProofOutcome a = prove(one), b = prove(eight);
  EXPECT_LE(compare(a.gradients, b.gradients).error, 1e-14);
}

TEST(LossScale, AMicrobatchWithoutLabelsCountsForNothing) {  // L4
  ProofRun run = run_of(tiny_gpt2(2, 0), 2, 1, 2);
  run.source = samples_with_valid(37, {7, 0});
  ProofRun alone = run_of(tiny_gpt2(2, 0), 2, 2, 1);
  alone.source = run.source;
  expect_equal(prove(alone), prove(run), "an empty rank against an empty microbatch");
}

TEST(LossScale, AStepWithoutLabelsIsSkippedOnAllRanksAndSaysSo) {  // L4
  ProofRun run = run_of(tiny_gpt2(2), 4, 4, 1, {1});
  run.source = samples_with_valid(37, {0});
  const ProofOutcome out = prove(run);
  EXPECT_TRUE(out.results[0].skipped);
  EXPECT_EQ(out.results[0].reason, "the step has no valid label");
  EXPECT_EQ(out.weights, out.initial);
  EXPECT_TRUE(out.ranks_agree);
}

// --- Layout changes nothing: masks and initial values by meaning, not by rank ----------------------------------------

TEST(Layout, InitialValuesAreEqualUnderEveryLayoutAndDifferByLayer) {  // T18
  const ProofOutcome one = prove(run_of(tiny_llama(3), 4, 1, 1)), four = prove(run_of(tiny_llama(3), 4, 4, 1, {1}));
  EXPECT_EQ(one.initial, four.initial);
  for (const char* weight : {"q.w", "up.w", "down.w"}) {
    EXPECT_NE(one.initial.at(str("L00.", weight)), one.initial.at(str("L01.", weight)));
    EXPECT_NE(one.initial.at(str("L01.", weight)), one.initial.at(str("L02.", weight)));
  }
}

TEST(Layout, DropoutIsOnAndItsMasksDoNotDependOnTheLayout) {  // T17
  // The proof above runs with dropout; here: it matters, and the loss agrees to the rounding of a sum of four.
  const ProofOutcome with = prove(run_of(tiny_gpt2(2, 0.1), 4, 1, 1)),
                     without = prove(run_of(tiny_gpt2(2, 0), 4, 1, 1));
  EXPECT_NE(with.results[0].loss, without.results[0].loss);
  const ProofOutcome four = prove(run_of(tiny_gpt2(2, 0.1), 4, 4, 1));
  EXPECT_NEAR(four.results[0].loss, with.results[0].loss, 1e-14);
}

// --- Buckets ---------------------------------------------------------------------------------------------------------

TEST(Buckets, AwkwardSizesOnThreeRanks) {  // Z1: nothing divides by anything
  ModelConfig model = tiny_llama(2);
  model.width = 6, model.heads = 3, model.kv_heads = 1, model.head_width = 2, model.ffn_width = 7,
  model.vocabulary = 31;
  const ProofOutcome wanted = prove(run_of(model, 9, 1, 1));
  for (const std::int64_t bytes : {0, 1, 500, 3000, 1 << 20})
    expect_equal(prove(run_of(model, 9, 3, 3, {bytes})), wanted, str("bucket ", bytes));
}

TEST(Buckets,
     LeaveOnlyAfterTheLastMicrobatch) {  // Z4: three microbatches, reductions under way during the last backward
  const ProofOutcome wanted = prove(run_of(tiny_gpt2(4), 6, 1, 1));
  expect_equal(prove(run_of(tiny_gpt2(4), 6, 2, 3, {1})), wanted, "3 microbatches");
  // In the program: no REDUCE in front of the last microbatch's B of its units.
  const ProofRun run = run_of(tiny_gpt2(4), 6, 2, 3, {1});
  const Program program = build_program(build_model(run.model, sizes_of(run.plan, run.workload)), run.plan);
  std::vector<int> last_b(program.by_pp[0].units.size(), -1);
  int reduced = 0;
  for (const Instruction& i : program.by_pp[0].code) {
    if (i.code == Code::kRun && i.fused) last_b[static_cast<std::size_t>(i.unit)] = i.microbatch;
    if (i.code != Code::kReduce) continue;
    ++reduced;
    const Bucket& b = program.by_pp[0].buckets[static_cast<std::size_t>(i.bucket)];
    for (const int u : b.users) EXPECT_EQ(last_b[static_cast<std::size_t>(u)], 2);
  }
  EXPECT_EQ(reduced, 6);  // embed, four layers, head: each once
}

TEST(Buckets, WeightDecayKeepsToMatrices) {  // Z10: three AdamW steps, whatever the buckets
  ProofRun one = run_of(tiny_gpt2(2), 6, 1, 1);
  one.optimizer = {.kind = OptimizerKind::kAdamW,
                   .learning_rate = 0.01,
                   .weight_decay = 0.5,
                   .clip_norm = 1,
                   .schedule = LrSchedule::kConstant};
  const ProofOutcome wanted = prove(one);
  for (const std::int64_t bytes : {0, 1, 9000}) {
    ProofRun run = run_of(tiny_gpt2(2), 6, 3, 2, {bytes});
    run.optimizer = one.optimizer;
    expect_equal(prove(run), wanted, str("bucket ", bytes));
  }
  // Without any gradient, decay alone moves matrices by (1 - rate decay)^3 and leaves vectors.
  ProofRun still = one;
  still.optimizer.kind = OptimizerKind::kSgd;
  still.optimizer.clip_norm = 1e-300;
  const ProofOutcome out = prove(still);
  const double kept = std::pow(1 - 0.01 * 0.5, 3);
  for (const auto& [name, weight] : out.weights)
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const bool is_matrix =
          name.size() > 2 && name.substr(name.size() - 2) == ".w" && name.find("norm") == std::string::npos;
      ASSERT_NEAR(weight[i], out.initial.at(name)[i] * (is_matrix ? kept : 1), 1e-12) << name;
    }
}

// --- Decisions: taken alike on all ranks ----------------------------------------------------------------------------

// A gelu whose backward pass yields NaN on one rank's thread while this is set.
thread_local bool inject_nan = false;
KernelTable kernels_with_fault() {
  static const KernelTable builtin = builtin_kernels();
  KernelTable table = builtin_kernels();
  const Kernel faulty = [](const KernelCall& c) {
    builtin.find("gelu", Pass::kI, DType::kF64)(c);
    if (inject_nan) c.writes[0].as<double>()[3] = std::numeric_limits<double>::quiet_NaN();
  };
  table.add("gelu", Pass::kI, faulty, faulty);
  return table;
}

ProofRun faulty_run(const KernelTable& kernels, int ranks, int faulty_rank, int faulty_step, int steps) {
  ProofRun run = run_of(tiny_gpt2(2), 4, ranks, 1, {1});
  run.optimizer = {.kind = OptimizerKind::kAdamW,
                   .learning_rate = 0.01,
                   .weight_decay = 0.1,
                   .clip_norm = 1,
                   .schedule = LrSchedule::kConstant};
  run.steps = steps;
  run.kernels = &kernels;
  run.before_step = [=](int rank, int step) { inject_nan = rank == faulty_rank && step == faulty_step; };
  return run;
}

TEST(Decision, ANanOnTheLastRankSkipsTheStepOnAll) {  // Z11
  const KernelTable kernels = kernels_with_fault();
  const ProofOutcome out = prove(faulty_run(kernels, 4, 3, 0, 1));
  EXPECT_TRUE(out.results[0].skipped);
  EXPECT_EQ(out.results[0].reason, "the gradient norm is not a number");
  EXPECT_TRUE(out.ranks_agree);
  EXPECT_EQ(out.weights, out.initial);
}

TEST(Decision, ASkippedStepDoesNotCountForTheBiasCorrection) {  // Z13: five steps, the third is skipped
  const KernelTable kernels = kernels_with_fault();
  const ProofOutcome four_ranks = prove(faulty_run(kernels, 4, 3, 2, 5));
  const ProofOutcome one_rank = prove(faulty_run(kernels, 1, 0, 2, 5));
  EXPECT_TRUE(four_ranks.results[2].skipped);
  EXPECT_LE(compare(four_ranks.weights, one_rank.weights).error, kTolerance);
  // The reference that never saw the bad step: the same data without it.
  ProofRun never = faulty_run(kernels, 1, -1, -1, 4);
  const SampleSource source = never.source;
  never.source = [source](std::int64_t sample, const SampleView& view) {
    source(sample < 8 ? sample : sample + 4, view);
  };
  EXPECT_LE(compare(one_rank.weights, prove(never).weights).error, 1e-15);
}

TEST(Decision, TheClipSeesTheScaledNorm) {  // N3: ten times the tokens, the same mean, the same clip
  ProofRun run = run_of(tiny_gpt2(2, 0), 4, 1, 1);
  const SampleSource source = uneven_samples(37);
  run.source = [source](std::int64_t, const SampleView& view) { source(3, view); };
  run.optimizer.clip_norm = 0.01;
  ProofRun more = run;
  more.workload.global_batch = 40;
  more.plan.microbatch_size = 10, more.plan.num_microbatches = 2, more.plan.dp_shard = 2;
  const ProofOutcome a = prove(run), b = prove(more);
  EXPECT_GT(a.results[0].grad_norm, 0.01);
  EXPECT_LE(compare(b.weights, a.weights).error, 1e-12);
}

TEST(Decision, HugeFloatGradientsHaveAFiniteNorm) {  // N4: squares of 1e20 overflow float32, not the float64 sum
  Team team(1);
  const std::vector<float> gradients(1000, 1e20F);
  EXPECT_NEAR(std::sqrt(sum_of_squares<float>(team, {{0, 1000, true}}, gradients.data())), 1e20 * std::sqrt(1000.0),
              1e15);
}

// --- Documents

// What a document says depends on nothing outside it: other text in front of it changes no bit of its loss.
TEST(Documents, DoNotLeakWhenTheyAreSeparate) {
  const auto loss_with = [](std::int32_t other_text) {
    ProofRun run = run_of(tiny_llama(2, 0), 1, 1, 1);
    run.steps = 1;
    run.source = [=](std::int64_t sample, const SampleView& view) {
      fill_causal(sample, view);
      for (std::size_t s = 0; s < 16; ++s) {
        const bool second = s >= 7;
        view.ids[s] = second ? static_cast<std::int32_t>(3 * s % 37) : other_text;
        view.labels[s] = second ? static_cast<std::int32_t>(5 * s % 37) : kIgnored;
        view.first[s] = second ? 7 : 0;
        view.positions[s] = static_cast<std::int32_t>(second ? s - 7 : s);
      }
    };
    return prove(run).results[0].loss;
  };
  EXPECT_EQ(loss_with(1), loss_with(30));
}

// --- Batches ---------------------------------------------------------------------------------------------------------

TEST(Batches, ThatDoNotDivideAreRefusedWithTheNearestSizes) {  // D2
  ProofRun run = run_of(tiny_gpt2(2), 8, 4, 1);
  run.workload.global_batch = 10;
  try {
    validate(run.plan, run.model, run.workload, "run.toml");
    FAIL();
  } catch (const InvalidInput& e) {
    EXPECT_NE(std::string(e.what()).find("nearest valid: global_batch = 8 or 16"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace sextant

int main(int argc, char** argv) { return sextant::run_tests(argc, argv); }
