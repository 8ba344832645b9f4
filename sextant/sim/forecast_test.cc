// A step on a cluster: its parts, what disturbs it, and what it must not be faster than.
#include "sextant/sim/forecast.h"

#include <gtest/gtest.h>

#include <map>

#include "sextant/program/examine.h"

namespace sextant {
namespace {

ModelConfig dense(std::int64_t layers) {
  ModelConfig c;
  c.family = "llama";
  c.layers = layers, c.width = 2048, c.heads = 16, c.kv_heads = 8, c.head_width = 128, c.ffn_width = 8192,
  c.vocabulary = 32000, c.max_positions = 1 << 18;
  return c;
}
const Workload kWorkload{4096, 64, DType::kBf16};

Plan plan_with(Plan plan) {
  plan.microbatch_size = 1;
  plan.num_microbatches = kWorkload.global_batch / plan.data_ranks();
  return plan;
}

std::vector<Plan> plans() {
  return {plan_with({.dp_shard = 8}),
          plan_with({.dp_shard = 8, .zero = 1}),
          plan_with({.dp_shard = 8, .zero = 3, .reduce = GradientReduce::kMicrobatch}),
          plan_with({.dp_shard = 4, .tp = 4, .sequence_parallel = true, .zero = 2}),
          plan_with({.dp_shard = 2, .cp = 2, .tp = 2, .pp = 2, .cp_slices = Slices::kZigzag}),
          plan_with({.dp_shard = 2, .tp = 2, .pp = 4, .zero = 1, .schedule = "interleaved", .virtual_stages = 2}),
          plan_with({.dp_replicate = 2, .dp_shard = 2, .pp = 4, .zero = 1, .schedule = "zb-h1"}),
          plan_with({.pp = 4, .schedule = "dualpipe"})};
}

TEST(Forecast, PartsAddUpToTheStep) {
  const Cluster cluster = find_cluster("h100-dgx");
  for (const Plan& plan : plans()) {
    ASSERT_TRUE(violations(plan, dense(14), kWorkload).empty());
    const Forecast f = forecast(dense(14), kWorkload, plan, cluster);
    const Breakdown& t = f.time;
    const Seconds sum = t.compute + t.imbalance + t.optimizer + t.tp + t.cp + t.dp + t.pipeline + t.bubble;
    EXPECT_NEAR(sum / t.makespan, 1, 1e-9);
    for (const Seconds part : {t.compute, t.imbalance, t.optimizer, t.tp, t.cp, t.dp, t.pipeline})
      EXPECT_GE(part, Seconds{0});
    EXPECT_GE(t.bubble.value, -1e-6 * t.makespan.value);
    EXPECT_EQ(t.tp > Seconds{0}, plan.tp > 1);
    EXPECT_EQ(t.cp > Seconds{0}, plan.cp > 1);
    EXPECT_GT(f.mfu, 0);
    EXPECT_LT(f.mfu, cluster.device.matmul_ceiling);
    EXPECT_GT(f.peak, cluster.device.reserve);
  }
}

TEST(Forecast, NoCommunicationOnOneDevice) {
  const Forecast f = forecast(dense(4), {4096, 2, DType::kBf16}, {.num_microbatches = 2}, find_cluster("a100-dgx"));
  const Breakdown& t = f.time;
  EXPECT_EQ(t.tp + t.cp + t.dp + t.pipeline + t.bubble + t.imbalance, Seconds{0});
}

TEST(Forecast, WhatIsSlowerMakesTheStepSlower) {
  const Cluster fast = find_cluster("h100-dgx");
  for (const Plan& plan : plans()) {
    const Seconds base = forecast(dense(14), kWorkload, plan, fast).step();
    Cluster slow = fast;
    slow.device.bf16 /= 2;
    EXPECT_GT(forecast(dense(14), kWorkload, plan, slow).step(), base);
    slow = fast;
    for (Level& level : slow.levels) level.bandwidth /= 4;
    EXPECT_GE(forecast(dense(14), kWorkload, plan, slow).step(), base);
    slow = fast;
    slow.device.overlaps = false;
    EXPECT_GE(forecast(dense(14), kWorkload, plan, slow).step().value, base.value * (1 - 1e-9));
    slow = fast;
    slow.device.interference = 0.3;
    EXPECT_GE(forecast(dense(14), kWorkload, plan, slow).step(), base);
  }
}

TEST(Forecast, ASlowCoordinateHoldsAllUp) {
  const Cluster cluster = find_cluster("h100-dgx");
  const Plan plan = plan_with({.dp_shard = 2, .pp = 4});
  const Program program = build_program(build_model(dense(14), sizes_of(plan, kWorkload)), plan);
  Prices prices = cluster_prices(program, cluster);
  const Forecast before = forecast(program, cluster, prices);
  disturb(prices, {.factor = {1, 1.5, 1, 1}});
  const Forecast after = forecast(program, cluster, prices);
  EXPECT_EQ(after.time.pp, 1);
  EXPECT_GT(after.step().value, 1.3 * before.step().value);
  EXPECT_GT(after.time.imbalance, before.time.imbalance);
  disturb(prices, {.factor = {}, .link = 50});
  EXPECT_GT(forecast(program, cluster, prices).step(), after.step());
}

// Collectives of buckets run beside the backward pass, but for the last one.
TEST(Forecast, BucketsHideBehindTheBackwardPass) {
  const Cluster cluster = find_cluster("h100-dgx");
  Plan plan = plan_with({.dp_shard = 16});
  plan.bucket = {0};
  const Seconds whole = forecast(dense(14), kWorkload, plan, cluster).time.dp;
  plan.bucket = {50'000'000};
  const Seconds parts = forecast(dense(14), kWorkload, plan, cluster).time.dp;
  EXPECT_GT(parts, Seconds{0});
  EXPECT_LT(parts.value, whole.value / 3);
}

// T9: the same step by two conventions (maxtext's figures for Llama-2-7B with 4 sequences of 8,192 and one of 129,024
// tokens; theirs leave out the embedding as ours do).
TEST(Flops, CausalAndFull) {
  const ModelConfig llama = find_model("llama2-7b");
  struct Case {
    std::int64_t sequence, batch;
    double full, causal;
  };
  for (const Case& c : {Case{8192, 4, 1721.22e12, 1510.11e12}, Case{129024, 1, 0, 0}}) {
    Plan plan;
    plan.microbatch_size = c.batch;
    ModelConfig model = llama;
    model.max_positions = c.sequence;
    const Program program =
        build_program(build_model(model, sizes_of(plan, {c.sequence, c.batch, DType::kBf16})), plan);
    const double full = model_flops(program), causal = model_flops(program, FlopsOf::kCausal);
    EXPECT_LT(causal, full);
    if (c.full > 0) {
      EXPECT_NEAR(full / c.full, 1, 1e-4);
      EXPECT_NEAR(causal / c.causal, 1, 1e-4);
    } else {
      EXPECT_NEAR(causal / full, 72827.0 / 125194, 2e-3);
    }
  }
}

// Design section 9: 7.5B parameters on 64 devices, 2 + 2 + 12 bytes a parameter.
TEST(Memory, TheZeroFigure) {
  ModelConfig model = find_model("megatron-gpt-7.5b");
  const double wanted[] = {120, 31.4, 16.6, 1.9};
  for (int zero = 0; zero < 4; ++zero) {
    Plan plan;
    plan.dp_shard = 64, plan.zero = zero, plan.gradient_dtype = DType::kBf16;
    plan.reduce = zero >= 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
    const Program program = build_program(build_model(model, sizes_of(plan, {2048, 64, DType::kBf16})), plan);
    double bytes = 0;
    for (const Bucket& bucket : program.by_pp[0].buckets) {
      const Stored s = stored_elements(program, bucket);
      bytes += static_cast<double>(s.parameters * 2 + s.gradients * 2 + s.state * adamw_state(DType::kBf16).value);
    }
    EXPECT_NEAR(bytes / 1e9, wanted[zero] * 7.4678 / 7.5, 0.06) << "zero " << zero;
  }
}

// T16: ZeRO 3 on 64 devices with tp 8: states divide by 64.
TEST(Memory, ShardsDivideByAllRanksOnce) {
  ModelConfig model = dense(8);
  Plan plan;
  plan.dp_shard = 8, plan.tp = 8, plan.zero = 3;
  const Model built = build_model(model, sizes_of(plan, {4096, 8, DType::kBf16}));
  const Program program = build_program(built, plan);
  std::int64_t state = 0;
  for (const Bucket& bucket : program.by_pp[0].buckets) state += stored_elements(program, bucket).state;
  EXPECT_NEAR(static_cast<double>(state) * 64 / static_cast<double>(built.num_parameters()), 1, 0.01);
}

// T11: stages [1, 2, 2, 3] of 8 layers: memory is that of the heaviest one.
TEST(Memory, OfTheHeaviestStage) {
  Plan plan;
  plan.pp = 4, plan.num_microbatches = 8, plan.stages = {2, 2, 2, 4};
  const Workload workload{1024, 8, DType::kBf16};
  const Program uneven = build_program(build_model(dense(8), sizes_of(plan, workload)), plan);
  Forecast f;
  forecast_memory(uneven, find_cluster("h100-dgx"), f);
  Bytes most;
  for (int pp = 0; pp < 4; ++pp) most = std::max(most, plan_memory(uneven, pp, adamw_state(DType::kBf16), {}, 1).peak);
  EXPECT_EQ(f.peak, most + find_cluster("h100-dgx").device.reserve);
  EXPECT_EQ(f.worst, 3);  // three layers and the head
}

// T13: GPT-2 774M without flash attention on 32 GB: scores, softmax and masks of 36 layers are counted, and the answer
// is a number.
TEST(Memory, ScoresAreCountedWhereTheyAreKept) {
  ModelConfig model = find_model("gpt2-large");
  Plan plan;
  plan.microbatch_size = 4;
  const auto peak = [&](const ModelConfig& m) {
    const Program program = build_program(build_model(m, sizes_of(plan, {1024, 4, DType::kBf16})), plan);
    return plan_memory(program, 0, adamw_state(DType::kBf16), {}, 1).peak.value;
  };
  const std::int64_t flash = peak(model);
  model.attention_core = AttentionCore::kUnfused, model.stored_masks = true, model.attention_dropout = 0.1;
  const std::int64_t scores = 36LL * 5 * 20 * 1024 * 1024 * 4;
  EXPECT_NEAR(static_cast<double>(peak(model) - flash) / static_cast<double>(scores), 1, 0.05);
}

// Elements of a bucket's parameter on one rank, by name.
std::map<std::string, std::int64_t> on_a_rank(const Program& program) {
  std::map<std::string, std::int64_t> out;
  for (const Bucket& bucket : program.by_pp[0].buckets)
    for (const Placed& p : bucket.parameters) out[p.parameter.spec.name] = p.size;
  return out;
}

// T10: Mixtral 8x7B, tp 2, ep 8, etp 1: experts divide by ep x etp, attention by tp, router and norms by nothing, and
// the optimizer of the experts by the ranks that hold the same ones.
TEST(Experts, DivideByTheirOwnDegrees) {
  Plan plan;
  plan.dp_shard = 8, plan.tp = 2, plan.sequence_parallel = true, plan.ep = 8, plan.zero = 1;
  const Workload workload{4096, 8, DType::kBf16};
  const Program program = build_program(build_model(find_model("mixtral-8x7b"), sizes_of(plan, workload)), plan);
  const auto held = on_a_rank(program);
  const std::int64_t D = 4096, F = 14336;
  for (const char* w : {"L07.expert_up.w", "L07.expert_gate.w", "L07.expert_down.w"}) EXPECT_EQ(held.at(w), D * F);
  EXPECT_EQ(held.at("L07.q.w"), D * D / 2);
  EXPECT_EQ(held.at("L07.router.w"), 8 * D);
  EXPECT_EQ(held.at("L07.norm1.w"), D);
  for (const Bucket& bucket : program.by_pp[0].buckets)
    EXPECT_EQ(stored_elements(program, bucket).state, bucket.elements / (bucket.grid == Grid::kExpert ? 2 : 8));
  // Activations of routed rows: as many as visits, whatever ep is.
  const auto rows = [&](int ep) {
    Plan other = plan;
    other.ep = ep;
    const Model model = build_model(find_model("mixtral-8x7b"), sizes_of(other, workload));
    const Unit unit = lower(model.layers[8], split_of(other));
    for (const Slot& slot : unit.slots)
      if (slot.spec.name == "L07.dispatch") return local_elements(slot.spec, mesh_of(other));
    return std::int64_t{0};
  };
  for (const int ep : {1, 2, 4, 8}) EXPECT_EQ(rows(ep), 2 * 4096 / 2 * D) << ep;
}

// T14: 122 billion parameters of which a token uses 10: memory is that of all, FLOPs those of the ones used.
TEST(Experts, MemoryOfAllAndFlopsOfThoseUsed) {
  ModelConfig model;
  model.family = "qwen3_moe";
  model.layers = 50, model.width = 3072, model.heads = 32, model.kv_heads = 8, model.head_width = 128,
  model.vocabulary = 151936, model.max_positions = 4096;
  model.mixture = {.experts = 128, .expert_width = 2048, .router = {.top_k = 8}};
  const Plan plan;
  const Model built = build_model(model, sizes_of(plan, {4096, 1, DType::kBf16}));
  const auto all = static_cast<double>(built.num_parameters());
  const double unused = 50.0 * (128 - 8) * 3 * 3072 * 2048, used = all - unused;
  EXPECT_NEAR(all / 1e9, 122, 2);
  EXPECT_NEAR(used / 1e9, 10, 1);
  const Program program = build_program(built, plan);
  const MemoryPlan memory = plan_memory(program, 0, adamw_state(DType::kBf16), {}, 1);
  EXPECT_NEAR(static_cast<double>(memory.at_peak[static_cast<std::size_t>(MemoryTag::kParameters)].value) / (2 * all),
              1, 1e-4);
  // Six for each parameter and token but the embedding's, and the scores: 12 s (heads x width of a head) a layer.
  const double table = 151936.0 * 3072, scores = 12.0 * 50 * 4096 * 32 * 128;
  EXPECT_NEAR(model_flops(program) / 4096 / (6 * (used - table) + scores), 1, 2e-3);
}

// T17: no tensor parallelism with experts over eight devices of a node: tokens travel, nothing goes over tp.
TEST(Experts, TravelWithoutTensorParallelism) {
  ModelConfig model = find_model("deepseek-v2-lite");
  Plan plan;
  plan.dp_shard = 8, plan.ep = 8, plan.num_microbatches = 4;
  const Forecast f = forecast(model, {4096, 32, DType::kBf16}, plan, find_cluster("h100-dgx"));
  EXPECT_GT(f.time.ep, Seconds{0});
  EXPECT_EQ(f.time.tp, Seconds{0});
  const Program program = build_program(build_model(model, sizes_of(plan, {4096, 32, DType::kBf16})), plan);
  const StepBytes bytes = promised_bytes(program, 0, {});
  EXPECT_EQ(bytes[Group::kTensor], Bytes{});
  // 26 layers of experts, six visits a token, four times through ep (there and back, forward and backward), 7 of 8 rows
  // leave; with each a weight, there and back.
  const double rows = 26.0 * 6 * 4096 * 4 * 7 / 8;
  EXPECT_NEAR(static_cast<double>(bytes[Group::kExpert].value) / (rows * 2 * (4 * 2048 + 2)), 1, 1e-3);
}

// T12: the head of multi-token prediction looks up embeddings too: the last coordinate holds the table, padded so that
// it divides into shards, and its share of the optimizer is in the account of memory.
TEST(Experts, AFurtherTokenCostsACopyOfTheEmbedding) {
  ModelConfig model = find_model("deepseek-v2-lite");
  Plan plan;
  plan.dp_shard = 24, plan.pp = 2, plan.ep = 8, plan.zero = 1, plan.num_microbatches = 2;
  const auto built = [&] { return build_program(build_model(model, sizes_of(plan, {4096, 48, DType::kBf16})), plan); };
  const auto table_of = [&](const Program& program, std::size_t pp) -> const Bucket* {
    for (const Bucket& bucket : program.by_pp[pp].buckets)
      for (const Placed& p : bucket.parameters)
        if (p.parameter.spec.name == "embed.w") return &bucket;
    return nullptr;
  };
  EXPECT_EQ(table_of(built(), 1), nullptr);
  const MemoryPlan before = plan_memory(built(), 1, adamw_state(DType::kBf16), {}, 1);
  model.mtp_depth = 1;
  const Program program = built();
  const Bucket* table = table_of(program, 1);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->holders, (std::vector<int>{0, 1}));
  EXPECT_EQ(table->elements % 24, 0);
  EXPECT_GE(table->elements, 102400 * 2048);
  EXPECT_EQ(stored_elements(program, *table).state, table->elements / 24);
  // Parameters and gradients whole, the state in 24 shards; and the layer of its own, whose experts have three.
  const MemoryPlan after = plan_memory(program, 1, adamw_state(DType::kBf16), {}, 1);
  const double copy = static_cast<double>(table->elements) * (2 + 4 + 12.0 / 24);
  EXPECT_GT(static_cast<double>((after.at_start - before.at_start).value), copy);
  EXPECT_TRUE(examine(program).violations.empty());
}

}  // namespace
}  // namespace sextant
