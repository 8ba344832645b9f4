// Every rule of the checker, by a program that breaks it: what is said, and where.
#include <gtest/gtest.h>

#include "sextant/base/errors.h"
#include "sextant/program/examine.h"
#include "tests/support/tiny.h"

namespace sextant {
namespace {

// 1F1B on two ranks, two microbatches, a unit a stage; sharded parameters over two ranks if asked for.
Program sound(int zero = 0, GradientReduce reduce = GradientReduce::kStep) {
  Plan plan;
  plan.pp = 2, plan.num_microbatches = 2, plan.zero = zero, plan.reduce = reduce, plan.bucket = {1},
  plan.live_units = 2;
  if (zero > 0) plan.dp_shard = 2;
  const Workload workload{16, 2 * plan.data_ranks(), DType::kF32};
  return build_program(build_model(tiny_gpt2(2), sizes_of(plan, workload)), plan);
}

std::size_t find(const Program& program, std::size_t pp, const std::string& text) {
  const RankProgram& rank = program.by_pp[pp];
  for (std::size_t i = 0; i < rank.code.size(); ++i)
    if (to_string(rank, rank.code[i]) == text) return i;
  ADD_FAILURE() << "no " << text << " in\n" << to_string(program);
  return 0;
}

// Takes an instruction out, or moves it; waits keep what they meant.
void move(Program& program, std::size_t pp, std::size_t from, std::optional<std::size_t> to) {
  std::vector<Instruction>& code = program.by_pp[pp].code;
  std::vector<std::size_t> order(code.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  if (to) order.insert(order.begin() + static_cast<std::ptrdiff_t>(*to), from);
  std::vector<std::int32_t> now(code.size(), -1);
  std::vector<Instruction> out;
  for (std::size_t i = 0; i < order.size(); ++i) now[order[i]] = static_cast<std::int32_t>(i);
  for (const std::size_t i : order) out.push_back(code[i]);
  for (Instruction& i : out)
    if (i.code == Code::kWait) i.waits_for = now[static_cast<std::size_t>(i.waits_for)];
  code = std::move(out);
}

std::string first(const Program& program) {
  const Examination e = examine(program);
  return e.violations.empty() ? "sound" : to_string(e.violations[0]);
}

bool says(const Program& program, const std::string& text) {
  for (const Violation& v : examine(program).violations)
    if (to_string(v) == text) return true;
  for (const Violation& v : examine(program).violations) std::cout << to_string(v) << "\n";
  return false;
}

TEST(Rules, ASoundProgramBreaksNone) {
  for (const int zero : {0, 1, 2, 3}) EXPECT_EQ(first(sound(zero)), "sound");
}

TEST(Rules, Once) {
  Program p = sound();
  move(p, 1, find(p, 1, "1F1 L01"), std::nullopt);
  EXPECT_TRUE(says(p, "pp 1 [once]: 1F1 L01 does not run"));
  p = sound();
  p.by_pp[0].code[find(p, 0, "0F1 embed")].microbatch = 0;
  EXPECT_TRUE(says(p, "pp 0, instruction 5 [once]: 0F0 embed runs twice"));
}

TEST(Rules, Order) {
  Program p = sound();
  move(p, 1, find(p, 1, "COUNT_TOKENS"), 5);
  EXPECT_TRUE(says(p, "pp 1, instruction 2 [order]: 1F0 L01 comes before COUNT_TOKENS"));
  p = sound();
  move(p, 1, find(p, 1, "1B0 head"), find(p, 1, "1F0 head"));
  EXPECT_TRUE(says(p, "pp 1, instruction 4 [order]: 1B0 head comes before its F"));
}

TEST(Rules, Input) {
  Program p = sound();
  move(p, 1, find(p, 1, "WAIT RECV act 0->1 mb0 from 0"), find(p, 1, "1F0 L01"));
  EXPECT_EQ(first(p), "pp 1, instruction 2 [input]: 1F0 L01: its input is not waited for");
  p = sound();
  move(p, 0, find(p, 0, "0F0 L00"), find(p, 0, "0F0 embed"));
  EXPECT_EQ(first(p), "pp 0, instruction 1 [input]: 0F0 L00: its input is not made yet");
}

TEST(Rules, Message) {
  Program p = sound();
  move(p, 0, find(p, 0, "SEND act 0->1 mb1 to 1"), std::nullopt);
  EXPECT_TRUE(says(p, "pp 1, instruction 5 [message]: RECV act 0->1 mb1 from 0: nobody sends it"));
  // Two messages of one tag.
  p = sound();
  p.by_pp[0].code[find(p, 0, "SEND act 0->1 mb1 to 1")].microbatch = 0;
  EXPECT_TRUE(says(p,
                   "pp 0, instruction 7 [message]: SEND act 0->1 mb0 to 1: the tag is that of SEND act 0->1 mb0 to 1 "
                   "(pp 0, instruction 3); a receiving stage and microbatch have one activation and one gradient"));
  // Another shape.
  p = sound();
  Unit& unit = p.by_pp[1].units[0];
  unit.slots[static_cast<std::size_t>(unit.input)].spec.dims[1].size = 8;
  EXPECT_TRUE(
      says(p,
           "pp 0, instruction 3 [message]: SEND act 0->1 mb0 to 1 brings [B 1 S 16 D 16], its receiver takes [B 1 "
           "S 8 D 16]"));
  // To a rank that does not want it.
  p = sound();
  p.by_pp[1].code[find(p, 1, "SEND grad 1->0 mb0 to 0")].peer = 1;
  EXPECT_TRUE(says(p, "pp 1, instruction 8 [message]: SEND grad 1->0 mb0 to 1: no neighbour is there that wants it"));
}

TEST(Rules, Wait) {
  Program p = sound();
  move(p, 0, find(p, 0, "WAIT SEND act 0->1 mb0 to 1"), std::nullopt);
  EXPECT_EQ(first(p), "pp 0, instruction 3 [wait]: SEND act 0->1 mb0 to 1 is never waited for");
  p = sound();
  p.by_pp[0].code[find(p, 0, "WAIT SEND act 0->1 mb0 to 1")].waits_for = 0;
  EXPECT_TRUE(says(p, "pp 0, instruction 15 [wait]: WAIT names instruction 0, which starts nothing"));
}

TEST(Rules, Gathered) {
  Program p = sound(3, GradientReduce::kMicrobatch);
  move(p, 0, find(p, 0, "WAIT UNSHARD embed.w"), 5);
  EXPECT_EQ(
      first(p),
      "pp 0, instruction 4 [gathered]: 0F0 embed reads the parameters of embed.w, whose gather is not waited for");
  p = sound(3, GradientReduce::kMicrobatch);
  move(p, 1, find(p, 1, "RESHARD head"), std::nullopt);
  EXPECT_EQ(first(p), "pp 1 [gathered]: the parameters of head are not freed");
  p = sound(3, GradientReduce::kMicrobatch);
  move(p, 1, find(p, 1, "RESHARD L01"), std::nullopt);
  EXPECT_EQ(first(p), "pp 1, instruction 17 [gathered]: UNSHARD L01: they are there already");
}

TEST(Rules, Reduced) {
  // One reduction of two is gone: its contributions would be in the next, but the gradients were to live for a part of
  // the step only; here the last one is gone.
  Program p = sound(2, GradientReduce::kMicrobatch);
  std::size_t last = 0;
  for (std::size_t i = 0; i < p.by_pp[0].code.size(); ++i)
    if (to_string(p.by_pp[0], p.by_pp[0].code[i]) == "WAIT REDUCE L00") last = i;
  const auto reduce = static_cast<std::size_t>(p.by_pp[0].code[last].waits_for);
  move(p, 0, last, std::nullopt);
  move(p, 0, reduce, std::nullopt);
  EXPECT_TRUE(says(p, "pp 0 [reduced]: the gradients of L00 are not reduced"));
  // The sum in front of the last contribution.
  p = sound(1);
  move(p, 0, find(p, 0, "REDUCE L00"), find(p, 0, "0B1 L00"));
  EXPECT_TRUE(says(p, "pp 0, instruction 14 [reduced]: 0B1 L00 adds to the gradients of L00 while they are reduced"));
  // The tied embedding is summed over its holders once.
  p = sound();
  move(p, 1, find(p, 1, "REDUCE_REST embed.w"), std::nullopt);
  EXPECT_EQ(first(p), "pp 1 [reduced]: the sums of embed.w that are left behind its reduction are made 0 times");
}

TEST(Rules, Tail) {
  Program p = sound(1);
  move(p, 0, find(p, 0, "DECIDE"), find(p, 0, "GRAD_NORM"));
  EXPECT_TRUE(first(p).ends_with("[tail]: DECIDE comes before GRAD_NORM")) << first(p);
  p = sound(1);
  move(p, 0, find(p, 0, "WAIT GATHER_PARAMS L00"), std::nullopt);
  EXPECT_TRUE(first(p).ends_with("[wait]: GATHER_PARAMS L00 is never waited for")) << first(p);
  p = sound(1);
  move(p, 0, find(p, 0, "OPT_STEP"), std::nullopt);
  EXPECT_TRUE(says(p, "pp 0 [tail]: OPT_STEP stands 0 times; it is needed once"));
}

TEST(Rules, Collectives) {
  Plan plan;
  plan.pp = 2, plan.num_microbatches = 4, plan.schedule = "dualpipe", plan.bucket = {1};
  Program p = build_program(build_model(tiny_llama(2), sizes_of(plan, {16, 4, DType::kF32})), plan);
  ASSERT_EQ(first(p), "sound");
  std::swap(p.by_pp[1].code[find(p, 1, "REDUCE_REST L00")], p.by_pp[1].code[find(p, 1, "REDUCE_REST head")]);
  EXPECT_EQ(first(p),
            "pp 1 [collectives]: sums over the holders come as head, embed, L00, L01, those of pp 0 as L00, embed, "
            "head, L01");
}

TEST(Rules, Deadlock) {
  // The last rank takes its microbatches in the other order: each waits for what the other makes later.
  Program p = build_program(parse_csv("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "x.csv"));
  EXPECT_EQ(
      first(p),
      "pp 0, instruction 5 [deadlock]: ranks wait for each other's results: pp 0 waits in WAIT RECV grad 1->0 mb0 "
      "from 1 (instruction 5) for pp 1; pp 1 waits in WAIT RECV act 0->1 mb1 from 0 (instruction 3) for pp 0; put "
      "what one of them waits for earlier in the other's list");
  // Both halves of a pair start at once, and this one's second half needs what its first half sends.
  const Schedule pair = parse_csv("(0F0;0B0)OVERLAP_F_B\n1F0,1B0\n", "x.csv");
  EXPECT_FALSE(can_end(pair));
  EXPECT_TRUE(first(build_program(pair)).find("[deadlock]") != std::string::npos);
  // A receive that is posted behind what its sender waits for: only a rendezvous ends there.
  p = sound();
  move(p, 0, find(p, 0, "WAIT SEND act 0->1 mb0 to 1"), 4);
  EXPECT_EQ(first(p), "sound");  // it is posted at once
  move(p, 1, find(p, 1, "RECV act 0->1 mb1 from 0"), find(p, 1, "SEND grad 1->0 mb0 to 0"));
  EXPECT_EQ(first(p), "sound");
}

// Each parameter is counted once in the norm, over all ranks, whatever holds copies of it (all-ones gradients make the
// root of the number of elements).
TEST(Rules, NormCountsEveryElementOnce) {
  for (const char* schedule : {"1f1b", "dualpipe"})
    for (const int tp : {1, 2, 4})
      for (const bool sp : {false, true}) {
        if (sp && tp == 1) continue;
        Plan plan;
        plan.pp = 2, plan.num_microbatches = 4, plan.schedule = schedule, plan.tp = tp, plan.sequence_parallel = sp;
        plan.dp_shard = 2, plan.dp_replicate = 2, plan.zero = 2;
        for (const ModelConfig& config : {tiny_gpt2(2), tiny_llama(2), tiny_qwen3(2)}) {
          const Model model = build_model(config, sizes_of(plan, {16, 16, DType::kF32}));
          const Program program = build_program(model, plan);
          // Elements that are counted: a rank's share of a parameter, on every coordinate that counts it. Slices that
          // are padded to be equal count their padding, which holds zeros.
          std::int64_t counted = 0, padded = 0;
          for (int pp = 0; pp < 2; ++pp)
            for (const Bucket& bucket : program.by_pp[static_cast<std::size_t>(pp)].buckets)
              for (const Placed& p : bucket.parameters) {
                for (int r = 0; r < program.mesh.num_ranks(); ++r) {
                  const Coordinates at = coordinates_of(r, program.mesh);
                  if (at.dp_shard == 0 && counts_in_norm(bucket, p, pp, at, program.mesh)) counted += p.size;
                }
                const Placement placed = p.spec.on(Axis::kTp);
                const int slices = placed.kind == Kind::kShard ? tp / placed.copies : 1;
                if (bucket.holders.front() == pp) padded += p.size * slices;
              }
          EXPECT_EQ(counted, padded);
          EXPECT_GE(counted, model.num_parameters());
          if (tp == 1) {
            EXPECT_EQ(counted, model.num_parameters());
          }
        }
      }
}

// Experts have ranks of their own that share them; all others count what they hold of dense parameters.
TEST(Rules, NormCountsEveryExpertOnce) {
  ModelConfig config = tiny_llama(2);
  config.family = "mixtral", config.vocabulary = 256;
  config.mixture = {.experts = 8, .expert_width = 16, .router = {.top_k = 2}, .biases = true};
  for (const auto& [tp, ep, etp] : {std::tuple{1, 1, 1}, {1, 4, 1}, {2, 4, 1}, {2, 2, 2}, {2, 8, 1}, {1, 2, 2}})
    for (const int zero : {0, 1, 3}) {
      Plan plan;
      plan.dp_replicate = 2, plan.dp_shard = 4, plan.tp = tp, plan.ep = ep, plan.etp = etp, plan.zero = zero;
      plan.sequence_parallel = tp > 1, plan.num_microbatches = 2;
      const Model model = build_model(config, sizes_of(plan, {16, 16, DType::kF32}));
      const Program program = build_program(model, plan);
      EXPECT_TRUE(examine(program).violations.empty());
      std::int64_t counted = 0;
      for (const Bucket& bucket : program.by_pp[0].buckets)
        for (const Placed& p : bucket.parameters)
          for (int r = 0; r < program.mesh.num_ranks(); ++r) {
            const Coordinates at = coordinates_of(r, program.mesh);
            // The ranks that share the bucket count a shard each: one of them for all.
            if (place_in(zero_group(bucket.grid), at, program.mesh) == 0 &&
                counts_in_norm(bucket, p, 0, at, program.mesh))
              counted += p.size;
          }
      EXPECT_EQ(counted, model.num_parameters()) << "tp " << tp << " ep " << ep << " etp " << etp;
    }
}

}  // namespace
}  // namespace sextant
