// Public reports of wrong results in parallel training code, as runs: each plan against one rank. Reports on experts,
// checkpoints and data have their tests beside those.
#include <gtest/gtest.h>

#include <set>

#include "sextant/base/errors.h"
#include "tests/support/parity.h"

namespace sextant {
namespace {

struct Report {
  std::string name;
  ModelConfig model;
  Plan plan;
  std::int64_t global_batch = 4;
};

ModelConfig with_kv_heads(std::int64_t heads, std::int64_t kv_heads) {
  ModelConfig c = tiny_llama(2);
  c.heads = heads, c.kv_heads = kv_heads;
  return c;
}

void prove_reports(const std::vector<Report>& reports) {
  for (const Report& report : reports) {
    ProofRun run = run_of(report.model, report.global_batch, 1, 1);
    const ProofOutcome wanted = prove(run);
    run.plan = report.plan;
    run.plan.microbatch_size = report.global_batch / run.plan.num_microbatches / run.plan.data_ranks();
    const auto broken = violations(run.plan, run.model, run.workload);
    ASSERT_TRUE(broken.empty()) << report.name << ": " << broken[0];
    expect_equal(prove(run), wanted, report.name);
  }
}

TEST(Reports, LossAndGradientScale) {
  const ModelConfig m = tiny_llama(2);
  prove_reports({
      {"Megatron-LM #673, #906: dp 2 cp 4", m, {.dp_shard = 2, .cp = 4, .num_microbatches = 1}},
      {"Megatron-LM #673, #906: dp 8", m, {.dp_shard = 8, .num_microbatches = 1}, 8},
      {"torchtitan #1733: pp 2, six microbatches", m, {.pp = 2, .num_microbatches = 6}, 6},
      {"torchtitan #2318: replicas 2, shards 2", m, {.dp_replicate = 2, .dp_shard = 2, .num_microbatches = 1}},
      {"Megatron-LM #3023: shards, four microbatches",
       m,
       {.dp_shard = 2, .zero = 3, .reduce = GradientReduce::kMicrobatch, .num_microbatches = 4},
       8},
  });
}

TEST(Reports, TensorParallel) {
  prove_reports({
      {"Megatron-LM #1446: the last norm under sp", tiny_gpt2(2), {.tp = 2, .sequence_parallel = true}, 1},
      {"torchtitan #2574: 2 kv heads on tp 4", with_kv_heads(4, 2), {.tp = 4, .num_microbatches = 4}},
      {"bigcode #35: 1 kv head on tp 2", with_kv_heads(4, 1), {.tp = 2, .num_microbatches = 4}},
      {"bigcode #35: 1 kv head on tp 4 sp", with_kv_heads(4, 1), {.tp = 4, .sequence_parallel = true}, 1},
      {"Megatron-LM #206: dropout over tp", tiny_gpt2(2, 0.3), {.tp = 2, .num_microbatches = 4}},
  });
}

TEST(Reports, Pipeline) {
  const ModelConfig m = tiny_llama(6), tied = tiny_gpt2(6);
  std::vector<Report> reports = {
      {"torchtitan #775: M 2 on P 4", m, {.pp = 4, .num_microbatches = 2}},
      {"PiPPy #1064: gpipe, M 1", m, {.pp = 4, .schedule = "gpipe", .num_microbatches = 1}, 1},
      {"pytorch #126419: 1f1b on 2", m, {.pp = 2, .num_microbatches = 4}},
      {"pytorch #127332: interleaved on 4", m, {.pp = 4, .schedule = "interleaved", .num_microbatches = 8}, 8},
      {"pytorch #144530: dp 2 pp 2 zb-h1", m, {.dp_shard = 2, .pp = 2, .schedule = "zb-h1", .num_microbatches = 2}},
      {"pytorch #144530: dp 2 pp 2 zb-v", m, {.dp_shard = 2, .pp = 2, .schedule = "zb-v", .num_microbatches = 2}},
      {"sail-sg #64: a token loss under zb-h1", m, {.pp = 2, .schedule = "zb-h1", .num_microbatches = 4}},
      {"Megatron-LM #1584: 7 layers, uneven, V 2",
       tiny_llama(7),
       {.pp = 2, .schedule = "interleaved", .virtual_stages = 2, .stages = {3, 3, 2, 1}, .num_microbatches = 4}},
  };
  for (const int zero : {0, 1, 2, 3}) {
    reports.push_back({str("Megatron-LM #844: dp 2 pp 2, tied, zero ", zero),
                       tied,
                       {.dp_shard = 2, .pp = 2, .zero = zero, .num_microbatches = 2}});
    reports.push_back({str("P7: pp 4, tied, odd buckets, zero ", zero),
                       tied,
                       {.dp_shard = 2, .pp = 4, .zero = zero, .bucket = {1000}, .num_microbatches = 2}});
  }
  for (const char* kind : {"1f1b", "interleaved", "zb-h1"})
    reports.push_back({str("DeepSpeed #823, #568, #4164: zero 2 under ", kind),
                       m,
                       {.dp_shard = 2, .pp = 2, .zero = 2, .schedule = kind, .num_microbatches = 2}});
  prove_reports(reports);
}

// Megatron-LM #468: 80 layers on PP 16, V 2 are 80 layers; #1584: each once, in order.
TEST(Reports, NoLayerIsLostOrDoubled) {
  ModelConfig eighty = tiny_llama(80);
  const auto layers_of = [](const ModelConfig& model, const Plan& plan) {
    const Workload workload{16, plan.num_microbatches, DType::kF64};
    const Program program = build_program(build_model(model, sizes_of(plan, workload)), plan);
    std::multiset<int> out;
    for (const RankProgram& rank : program.by_pp)
      for (const Unit& unit : rank.units)
        if (unit.layer >= 0) out.insert(unit.layer);
    return out;
  };
  std::multiset<int> wanted;
  for (int l = 0; l < 80; ++l) wanted.insert(l);
  EXPECT_EQ(layers_of(eighty, {.pp = 16, .schedule = "interleaved", .virtual_stages = 2, .num_microbatches = 16}),
            wanted);
  EXPECT_EQ(
      layers_of(
          tiny_llama(7),
          {.pp = 2, .schedule = "interleaved", .virtual_stages = 2, .stages = {3, 3, 2, 1}, .num_microbatches = 4}),
      std::multiset<int>({0, 1, 2, 3, 4, 5, 6}));
}

TEST(Reports, Zero) {
  const ModelConfig m = tiny_llama(4);
  std::vector<Report> reports;
  for (const int zero : {0, 1, 2, 3}) {
    reports.push_back({str("Megatron-LM #792: dp 3, zero ", zero), m, {.dp_shard = 3, .zero = zero}, 3});
    reports.push_back({str("DeepSpeed #1488, #545: three microbatches, zero ", zero),
                       m,
                       {.dp_shard = 2, .zero = zero, .num_microbatches = 3},
                       6});
    // Layers run forwards and backwards, so buckets are gathered in another order than they were reduced in.
    reports.push_back({str("Megatron-LM #663, #950, #4609: small buckets, zero ", zero),
                       m,
                       {.dp_shard = 4, .zero = zero, .bucket = {3000}, .num_microbatches = 2},
                       8});
  }
  prove_reports(reports);
}

// torchtitan #1929: replicas are summed once a step, whatever the number of microbatches.
TEST(Reports, ReplicasAreSummedOnceAStep) {
  const auto replica_bytes = [](GradientReduce reduce, int microbatches) {
    const Plan plan{.dp_replicate = 2, .dp_shard = 2, .zero = 2, .reduce = reduce, .num_microbatches = microbatches};
    const Workload workload{16, 4 * microbatches, DType::kF64};
    const Program program = build_program(build_model(tiny_llama(2), sizes_of(plan, workload)), plan);
    return promised_bytes(program, 0, {})[Group::kReplicas];
  };
  for (const GradientReduce reduce : {GradientReduce::kStep, GradientReduce::kMicrobatch}) {
    EXPECT_GT(replica_bytes(reduce, 1), Bytes{0});
    EXPECT_EQ(replica_bytes(reduce, 4), replica_bytes(reduce, 1));
  }
}

}  // namespace
}  // namespace sextant
