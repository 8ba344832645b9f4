// Traps of docs/traps.md that a proof with even data and SGD would not meet, each under several splits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sextant/base/errors.h"
#include "tests/support/parity.h"

namespace sextant {
namespace {

struct Split {
  std::string name;
  Plan plan;
};

// One plan of each kind, and mixtures; microbatch_size 1.
std::vector<Split> splits() {
  return {{"zero 1", {.dp_shard = 2, .zero = 1, .num_microbatches = 2}},
          {"zero 3, replicas",
           {.dp_replicate = 2, .dp_shard = 2, .zero = 3, .reduce = GradientReduce::kMicrobatch, .num_microbatches = 1}},
          {"tp 4", {.tp = 4, .num_microbatches = 4}},
          {"tp 2 sp", {.tp = 2, .sequence_parallel = true, .num_microbatches = 4}},
          {"cp 4 zigzag", {.cp = 4, .cp_slices = Slices::kZigzag, .num_microbatches = 4}},
          {"pp 2 zb-v", {.pp = 2, .schedule = "zb-v", .num_microbatches = 4}},
          {"pp 2 dualpipe", {.pp = 2, .schedule = "dualpipe", .num_microbatches = 4}},
          {"dp 2 tp 2 pp 2 zero 3", {.dp_shard = 2, .tp = 2, .pp = 2, .zero = 3, .num_microbatches = 2}},
          {"cp 2 tp 2 sp pp 2 zero 2",
           {.cp = 2, .tp = 2, .pp = 2, .sequence_parallel = true, .zero = 2, .num_microbatches = 4}}};
}

// Runs `change`d proofs under every split against one rank.
void prove_all(const ModelConfig& model, const auto& change) {
  ProofRun one = run_of(model, 4, 1, 1);
  change(one);
  const ProofOutcome wanted = prove(one);
  for (const Split& split : splits()) {
    ProofRun run = one;
    run.plan = split.plan;
    ASSERT_TRUE(violations(run.plan, run.model, run.workload).empty()) << split.name;
    const ProofOutcome got = prove(run);
    expect_equal(got, wanted, split.name);
    EXPECT_EQ(got.initial, wanted.initial) << split.name << ": initial values depend on the layout";  // T18
  }
}

TEST(Traps, InitialValuesDoNotDependOnTheLayout) {  // T18, and K10: the padded vocabulary
  for (const ModelConfig& model : {tiny_gpt2(3), tiny_llama(3), tiny_llama(3, 0.1, true)})
    prove_all(model, [](ProofRun&) {});
}

TEST(Traps,
     AdamWUnderEverySplit) {  // Z10, Z13, T8, N3: decay of matrices only, state in shards, clipping by the whole norm
  for (const ModelConfig& model : {tiny_gpt2(3), tiny_llama(3)})
    prove_all(model, [](ProofRun& run) {
      run.optimizer = {.kind = OptimizerKind::kAdamW,
                       .learning_rate = 0.01,
                       .epsilon = 1e-3,  // of the size of gradients, so that Adam does not blow up their rounding
                       .weight_decay = 0.5,
                       .clip_norm = 0.5,
                       .schedule = LrSchedule::kConstant};
    });
}

TEST(Traps, OneValidTokenInOneChunk) {  // L3, T13: all other labels are ignored, on all cp ranks but one
  prove_all(tiny_llama(3), [](ProofRun& run) { run.source = samples_with_valid(37, {1, 0, 0, 2}); });
}

TEST(Traps, HugeLogitsInOneShard) {  // T11: the maximum is that of all shards
  ModelConfig model = tiny_llama(3, 0);
  model.head.softcap = 0;
  for (const double deviation : {5.0, 40.0}) {
    model.initial_deviation = deviation;
    ProofRun one = run_of(model, 4, 1, 1);
    one.steps = 1;
    const ProofOutcome wanted = prove(one);
    ASSERT_TRUE(std::isfinite(wanted.results[0].loss));
    EXPECT_GT(wanted.results[0].loss, 10);
    for (const int tp : {2, 4}) {
      ProofRun run = one;
      run.plan = {.tp = tp, .num_microbatches = 4};
      const ProofOutcome got = prove(run);
      EXPECT_NEAR(got.results[0].loss / wanted.results[0].loss, 1, kTolerance) << "tp " << tp;
    }
  }
}

TEST(Traps, LabelsAtTheEdgesOfShards) {  // T9: 37 rows in slices of 19 or 10
  prove_all(tiny_llama(3, 0), [](ProofRun& run) {
    const SampleSource source = uneven_samples(37);
    run.source = [source](std::int64_t sample, const SampleView& view) {
      source(sample, view);
      constexpr std::int32_t kEdges[] = {0, 9, 10, 18, 19, 20, 29, 30, 36};
      for (std::size_t s = 0; s < view.labels.size(); ++s)
        if (view.labels[s] >= 0) view.labels[s] = kEdges[(s + static_cast<std::size_t>(sample)) % 9];
    };
  });
}

TEST(Traps, EvenLogitsCostTheLogarithmOfTheVocabulary) {  // T12: not of a shard, not of its padding
  ModelConfig model = tiny_llama(3, 0);
  model.initial_deviation = 0;
  for (const Split& split : splits()) {
    ProofRun run = run_of(model, 4, 1, 1);
    run.steps = 1, run.plan = split.plan;
    EXPECT_NEAR(prove(run).results[0].loss, std::log(37.0), 1e-12) << split.name;
  }
}

TEST(Traps, SmoothingAndZLossSeeTheWholeVocabulary) {  // T10, T14; Megatron-LM #737, #7464, #7452 (2)
  for (const std::int64_t vocabulary : {4, 8, 37})
    for (const HeadRule& rule : {HeadRule{.label_smoothing = 0.2}, HeadRule{.z_loss = 0.05},
                                 HeadRule{.softcap = 1.5, .label_smoothing = 0.1, .z_loss = 0.05}}) {
      ModelConfig model = tiny_llama(3);
      model.vocabulary = vocabulary, model.head = rule;
      prove_all(model, [](ProofRun&) {});
    }
}

TEST(Traps, SmoothedEvenLogitsByHand) {  // every target is met alike: log V, and z times its square
  ModelConfig model = tiny_llama(3, 0);
  model.initial_deviation = 0, model.head = {.label_smoothing = 0.3, .z_loss = 0.5};
  ProofRun run = run_of(model, 4, 1, 1);
  run.steps = 1, run.plan = {.tp = 4, .num_microbatches = 4};
  EXPECT_NEAR(prove(run).results[0].loss, std::log(37.0) + 0.5 * std::log(37.0) * std::log(37.0), 1e-12);
}

TEST(Traps, LabelsAtTheLastTokenOfEachChunk) {  // C7: shifted before the sequence is split, not after
  prove_all(tiny_llama(3), [](ProofRun& run) {
    const SampleSource source = uneven_samples(37);
    run.source = [source](std::int64_t sample, const SampleView& view) {
      source(sample, view);
      for (std::size_t s = 0; s < view.labels.size(); ++s)
        view.labels[s] = s % 2 == 1 ? static_cast<std::int32_t>((s + static_cast<std::size_t>(sample)) % 37) : kIgnored;
    };
  });
}

TEST(Traps, TheClipIsByTheNormOfAllRanks) {  // torchtitan #596, #766: the steps of all shards shrink by one factor
  ProofRun run = run_of(tiny_gpt2(3), 4, 1, 1);
  run.steps = 1;
  const double norm = prove(run).results[0].grad_norm, rate = run.optimizer.learning_rate;
  run.optimizer.clip_norm = norm / 5;
  for (const Split& split : splits()) {
    run.plan = split.plan;
    const ProofOutcome out = prove(run);
    auto moved = out.weights, wanted = out.gradients;
    for (auto& [name, values] : moved)
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = out.initial.at(name)[i] - values[i];
    for (auto& [name, values] : wanted)
      for (double& g : values) g *= rate / 5;
    const Worst worst = compare(moved, wanted);
    EXPECT_LE(worst.error, kTolerance) << split.name << " " << worst.tensor;
  }
}

TEST(Traps, AStepWithoutValidLabelsIsSkippedByAll) {  // L4, Z11
  for (const Split& split : splits()) {
    ProofRun run = run_of(tiny_gpt2(3), 4, 1, 1);
    run.steps = 2, run.plan = split.plan;
    const SampleSource source = run.source;
    run.source = [source](std::int64_t sample, const SampleView& view) {
      source(sample, view);
      if (sample >= 4) std::fill(view.labels.begin(), view.labels.end(), kIgnored);
    };
    const ProofOutcome out = prove(run);
    EXPECT_TRUE(!out.results[0].skipped && out.results[1].skipped) << split.name;
    EXPECT_EQ(out.results[1].reason, "the step has no valid label") << split.name;
    EXPECT_TRUE(out.ranks_agree && out.bytes_match && out.peak_matches) << split.name;
    run.steps = 1;
    EXPECT_EQ(prove(run).weights, out.weights) << split.name;
  }
}

TEST(Traps, DataAndContextRanksAreTheSameForWeights) {  // L7, C11
  const ProofOutcome wanted = prove(run_of(tiny_llama(2), 4, 1, 1));
  for (const auto& [dp, cp] : {std::pair{4, 1}, {2, 2}, {1, 4}})
    for (const int zero : {0, 3}) {
      ProofRun run = run_of(tiny_llama(2), 4, dp, 4 / dp);
      run.plan.cp = cp, run.plan.zero = zero;
      expect_equal(prove(run), wanted, str("dp ", dp, " cp ", cp, " zero ", zero));
    }
}

TEST(Traps, MoreRanksThanElements) {  // Z2: shards of padding only
  ModelConfig model = tiny_llama(2, 0);
  const ProofOutcome wanted = prove(run_of(model, 8, 1, 1));
  for (const int zero : {1, 2, 3}) {
    ProofRun run = run_of(model, 8, 8, 1, {1});
    run.plan.zero = zero;
    expect_equal(prove(run), wanted, str("zero ", zero));
  }
}

}  // namespace
}  // namespace sextant
