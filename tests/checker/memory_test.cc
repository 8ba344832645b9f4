// What the memory walk says of pipelines and of ZeRO, against what is known by hand.
#include "sextant/program/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/tiny.h"

namespace sextant {
namespace {

Program program_of(const Plan& plan, const ModelConfig& config) {
  const Workload workload{16, plan.num_microbatches * plan.data_ranks(), DType::kF32};
  return build_program(build_model(config, sizes_of(plan, workload)), plan);
}

Bytes at(const LiveBytes& live, MemoryTag tag) { return live[static_cast<std::size_t>(tag)]; }

// Activations that a coordinate keeps for one microbatch.
Bytes kept(const Program& program, int pp) {
  Bytes sum;
  for (const Unit& unit : program.by_pp[static_cast<std::size_t>(pp)].units)
    for (std::size_t s = 0; s < unit.slots.size(); ++s)
      if (unit.slots[s].life == Life::kKept) sum += slot_bytes(unit, static_cast<int>(s), program.mesh);
  return sum;
}

TEST(Memory, ActivationsFollowTheSchedule) {
  Plan plan;
  plan.pp = 4, plan.num_microbatches = 8;
  const auto chunks = [&](const char* kind) {
    plan.schedule = kind;
    const Program program = program_of(plan, tiny_llama(8));
    std::vector<double> out;
    for (int pp = 0; pp < 4; ++pp) {
      const MemoryPlan memory = plan_memory(program, pp, {}, {}, 1);
      EXPECT_EQ(memory.at_start, memory.at_end);
      out.push_back(static_cast<double>(at(memory.at_peak, MemoryTag::kActivations).value) /
                    static_cast<double>(kept(program, pp).value));
    }
    return out;
  };
  // The peak is a few steps into a backward pass, where a part of that microbatch's is free again. With one microbatch
  // at a time that is all there is; every further one is whole.
  const std::vector<double> one = chunks("naive");
  const auto further = [&](const char* kind) {
    std::vector<double> all = chunks(kind);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::round(1e6 * (all[i] - one[i])) / 1e6;
    return all;
  };
  for (const double share : one) EXPECT_LE(share, 1);
  EXPECT_EQ(further("gpipe"), (std::vector<double>{7, 7, 7, 7}));
  EXPECT_EQ(further("1f1b"), (std::vector<double>{3, 2, 1, 0}));
}

// A weight gradient that waits keeps its inputs only: less than a microbatch whose backward pass is still to come.
TEST(Memory, WhatWaitsForWIsLessThanWhatWaitsForI) {
  Plan plan;
  plan.pp = 4, plan.num_microbatches = 8, plan.schedule = "zb-h1";
  const Program program = program_of(plan, tiny_llama(8));
  const MemoryPlan memory = plan_memory(program, 3, {}, {}, 1);  // the last rank keeps four, three of them for W
  const double chunks = static_cast<double>(at(memory.at_peak, MemoryTag::kActivations).value) /
                        static_cast<double>(kept(program, 3).value);
  EXPECT_GT(chunks, 1.5);
  EXPECT_LT(chunks, 3);
}

// Bytes per parameter: 4 of value, 4 of gradient, 8 of AdamW's state, each whole or an n-th.
TEST(Memory, StatesByZeroStage) {
  for (const int n : {2, 4, 8})
    for (const int zero : {0, 1, 2, 3}) {
      Plan plan;
      plan.dp_shard = n, plan.zero = zero, plan.num_microbatches = 2, plan.bucket = {1};
      plan.reduce = zero >= 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
      const Program program = program_of(plan, tiny_llama(4));
      std::int64_t elements = 0;
      for (const Bucket& b : program.by_pp[0].buckets) elements += b.elements;
      Stored sum;
      for (const Bucket& b : program.by_pp[0].buckets) {
        const Stored s = stored_elements(program, b);
        sum.parameters += s.parameters, sum.gradients += s.gradients, sum.state += s.state;
      }
      EXPECT_EQ(sum.parameters, zero >= 3 ? elements / n : elements) << zero;
      EXPECT_EQ(sum.gradients, zero >= 2 ? elements / n : elements) << zero;
      EXPECT_EQ(sum.state, zero >= 1 ? elements / n : elements) << zero;
      const MemoryPlan memory = plan_memory(program, 0, {8}, {}, 1);
      EXPECT_EQ(memory.at_start, memory.at_end);
      EXPECT_EQ(at(memory.at_peak, MemoryTag::kParameters).value, 4 * sum.parameters);
      EXPECT_EQ(at(memory.at_peak, MemoryTag::kOptimizer).value, 8 * sum.state);
      // Whole gradients of two buckets at most, gathered parameters of two.
      std::int64_t greatest = 0;
      for (const Bucket& b : program.by_pp[0].buckets) greatest = std::max(greatest, 4 * b.elements);
      EXPECT_LE(at(memory.at_peak, MemoryTag::kGradients).value,
                4 * sum.gradients + (zero >= 2 ? 2 * greatest : 0) + 64);  // and the loss
      EXPECT_LE(at(memory.at_peak, MemoryTag::kGathered).value, zero == 3 ? 2 * greatest : 0);
    }
}

// Bytes: with one reduction a step ZeRO-1 moves what an all-reduce moves; ZeRO-3 gathers twice on top, less the units
// that are still there when the backward pass begins.
TEST(Memory, TrafficByZeroStage) {
  const auto bytes = [](int zero, int microbatches) {
    Plan plan;
    plan.dp_shard = 4, plan.zero = zero, plan.num_microbatches = microbatches, plan.bucket = {1};
    plan.reduce = zero >= 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
    return promised_bytes(program_of(plan, tiny_llama(4)), 0, {})[Group::kZero].value;
  };
  EXPECT_EQ(bytes(1, 1), bytes(0, 1));
  EXPECT_EQ(bytes(2, 1), bytes(0, 1));
  EXPECT_EQ(bytes(1, 4), bytes(0, 4));
  // Each further microbatch reduces once more.
  EXPECT_EQ(2 * (bytes(2, 4) - bytes(2, 1)), 3 * bytes(0, 1));
  EXPECT_GT(bytes(3, 1), bytes(0, 1));
  EXPECT_LE(2 * bytes(3, 1), 3 * bytes(0, 1));
}

// A GPT layer keeps its input, two norms, q, k, v, the attention's output and log-sum-exp, the first residual, and up
// and act of four widths: 16 s b h + a s b + 4 s b elements (in bf16 with float32 statistics 32 s b h + 4 a s b + 16 s
// b bytes).
TEST(Memory, ActivationsOfAGptLayer) {
  for (const int tp : {1, 2, 4}) {
    ModelConfig config = tiny_gpt2(1, 0);
    config.width = 32, config.head_width = 8, config.ffn_width = 128;
    Plan plan;
    plan.tp = tp, plan.microbatch_size = 3;
    const std::int64_t s = 16, b = 3, h = 32, a = 4;
    const Model model = build_model(config, sizes_of(plan, {s, b, DType::kF32}));
    for (const bool sp : {false, true}) {
      if (sp && tp == 1) continue;
      plan.sequence_parallel = sp;
      const LayerSplit split = split_of(plan);
      const Unit unit = lower(model.layers[1], split);
      std::int64_t elements = local_elements(unit.slots[static_cast<std::size_t>(unit.input)].spec, split.mesh);
      for (const Slot& slot : unit.slots)
        if (slot.life == Life::kKept) elements += local_elements(slot.spec, split.mesh);
      // What tp splits by heads and widths: q, k, v, attention, up, act: 12 of 16. The rest only sequence parallelism.
      const std::int64_t rest = 4 * s * b * h + 4 * s * b;
      EXPECT_EQ(elements, (12 * s * b * h + a * s * b) / tp + (sp ? rest / tp : rest))
          << "tp " << tp << (sp ? " sp" : "");
    }
  }
}

// Korthikanti et al. 2022, section 4: with unfused attention and stored masks a bf16 layer keeps s b h (34 + 5 a s / h)
// bytes; 10 + (24 + 5 a s / h) / t under tensor parallelism, 34 / t and so on with sequence parallelism, and without
// the 5 a s / h where the core of attention is rebuilt. Statistics of norms come on top: 16 s b bytes.
TEST(Memory, ActivationsOfAnUnfusedLayerAreThoseOfThePaper) {
  for (const int tp : {1, 2, 4})
    for (const bool sp : {false, true})
      for (const bool selective : {false, true}) {
        if (sp && tp == 1) continue;
        ModelConfig config = tiny_gpt2(1, 0.1);
        config.width = 32, config.head_width = 8, config.ffn_width = 128, config.attention_dropout = 0.1;
        config.attention_core = AttentionCore::kUnfused, config.stored_masks = true;
        Plan plan;
        plan.tp = tp, plan.microbatch_size = 3, plan.sequence_parallel = sp;
        if (selective) plan.recompute.ops = {"attention"};
        const std::int64_t s = 16, b = 3, h = 32, a = 4, sbh = s * b * h;
        const Model model = build_model(config, sizes_of(plan, {s, b, DType::kBf16}));
        LayerSplit split = split_of(plan);
        split.recompute = plan.recompute;
        const Unit unit = lower(model.layers[1], split);
        Bytes kept = local_bytes(unit.slots[static_cast<std::size_t>(unit.input)].spec, split.mesh);
        for (const Slot& slot : unit.slots)
          if (slot.life == Life::kKept) kept += local_bytes(slot.spec, split.mesh);
        const std::int64_t scores = selective ? 0 : 5 * a * s * s * b / tp, statistics = 16 * s * b / (sp ? tp : 1);
        EXPECT_EQ(kept.value, (sp ? 34 * sbh / tp : 10 * sbh + 24 * sbh / tp) + scores + statistics)
            << "tp " << tp << " sp " << sp << " selective " << selective;
      }
}

// With our own ops, in bf16: 32 s b h + 4 a s b + 16 s b.
TEST(Memory, ActivationsOfABf16Layer) {
  ModelConfig config = tiny_gpt2(1, 0);
  config.width = 32, config.head_width = 8, config.ffn_width = 128;
  const std::int64_t s = 16, b = 3, h = 32, a = 4;
  Plan plan;
  plan.microbatch_size = b;
  const Model model = build_model(config, sizes_of(plan, {s, b, DType::kBf16}));
  const Unit unit = lower(model.layers[1], split_of(plan));
  Bytes kept = local_bytes(unit.slots[static_cast<std::size_t>(unit.input)].spec, {});
  for (const Slot& slot : unit.slots)
    if (slot.life == Life::kKept) kept += local_bytes(slot.spec, {});
  EXPECT_EQ(kept.value, 32 * s * b * h + 4 * a * s * b + 16 * s * b);
}

}  // namespace
}  // namespace sextant
