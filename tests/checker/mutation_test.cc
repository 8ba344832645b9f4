// The checker against programs with one mistake: it names it, or the mistake changes nothing.
#include <gtest/gtest.h>

#include <random>

#include "sextant/base/errors.h"
#include "sextant/model/abstract.h"
#include "sextant/plan/pipeline_parallel.h"
#include "sextant/program/examine.h"
#include "tests/support/meaning.h"
#include "tests/support/tiny.h"

namespace sextant {
namespace {

struct Named {
  std::string name;
  Program program;
};

Plan plan_of(const std::string& schedule, int pp, int microbatches, int zero = 0, int dp = 1, int replicas = 1) {
  Plan plan;
  plan.schedule = schedule, plan.pp = pp, plan.num_microbatches = microbatches;
  plan.zero = zero, plan.dp_shard = dp, plan.dp_replicate = replicas;
  plan.reduce = zero >= 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
  plan.bucket = {1};
  return plan;
}

Program real(const ModelConfig& config, const Plan& plan) {
  return build_program(
      build_model(config, sizes_of(plan, {16, plan.num_microbatches * plan.data_ranks(), DType::kF32})), plan);
}

std::vector<Named> programs() {
  std::vector<Named> out;
  for (const ScheduleKind& kind : schedule_kinds())
    out.push_back({kind.id, build_program(make_schedule(kind, {2, 4}), 2)});
  for (const int zero : {0, 1, 2, 3})
    out.push_back({str("zero ", zero), real(tiny_llama(2), plan_of("1f1b", 2, 3, zero, 2, 2))});
  Plan step = plan_of("zb-v", 2, 3, 3, 2);
  step.reduce = GradientReduce::kStep, step.live_units = 3;
  out.push_back({"zb-v, zero 3, reduced once", real(tiny_llama(4), step)});
  out.push_back({"tied", real(tiny_gpt2(2), plan_of("interleaved", 2, 3, 2, 2))});
  out.push_back({"mirrored", real(tiny_gpt2(2), plan_of("dualpipe", 2, 4, 3, 2))});
  return out;
}

enum class Change { kDrop, kDouble, kSwap };

// The program with one list changed; waits keep the instruction that they meant.
Program mutant(const Program& program, std::size_t pp, Change change, std::size_t i, std::size_t j) {
  Program out = program;
  auto& code = out.by_pp[pp].code;
  std::vector<std::int32_t> origin(code.size());
  for (std::size_t n = 0; n < origin.size(); ++n) origin[n] = static_cast<std::int32_t>(n);
  const auto at = static_cast<std::ptrdiff_t>(i);
  switch (change) {
    case Change::kDrop:
      code.erase(code.begin() + at), origin.erase(origin.begin() + at);
      break;
    case Change::kDouble: {
      const Instruction copy = code[i];
      code.insert(code.begin() + static_cast<std::ptrdiff_t>(j), copy);
      origin.insert(origin.begin() + static_cast<std::ptrdiff_t>(j), -1);
      break;
    }
    case Change::kSwap:
      std::swap(code[i], code[j]), std::swap(origin[i], origin[j]);
      break;
  }
  std::vector<std::int32_t> now(program.by_pp[pp].code.size(), -1);
  for (std::size_t n = 0; n < origin.size(); ++n)
    if (origin[n] >= 0) now[static_cast<std::size_t>(origin[n])] = static_cast<std::int32_t>(n);
  for (Instruction& instruction : code)
    if (instruction.code == Code::kWait) instruction.waits_for = now[static_cast<std::size_t>(instruction.waits_for)];
  return out;
}

TEST(Mutations, AreRejectedOrChangeNothing) {
  std::mt19937 random(7);
  int rejected = 0, harmless = 0;
  for (const auto& [name, program] : programs()) {
    const Examination sound = examine(program);
    ASSERT_TRUE(sound.violations.empty()) << name << ": " << to_string(sound.violations[0]);
    const std::string meaning = meaning_of(program);
    ASSERT_EQ(meaning.find("ends 0"), std::string::npos) << name << "\n" << meaning;
    ASSERT_EQ(meaning.find("faults 1"), std::string::npos) << name << "\n" << meaning;
    for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
      const RankProgram& rank = program.by_pp[pp];
      const std::size_t size = rank.code.size();
      const auto look = [&](Change change, std::size_t i, std::size_t j) {
        const Program changed = mutant(program, pp, change, i, j);
        if (!examine(changed).violations.empty()) {
          ++rejected;
          return;
        }
        ++harmless;
        EXPECT_EQ(change, Change::kSwap) << "what is left out or done twice is always noticed";
        EXPECT_EQ(meaning_of(changed), meaning) << name << ", pp " << pp
                                                << (change == Change::kDrop     ? ": without "
                                                    : change == Change::kDouble ? ": twice "
                                                                                : ": exchanged ")
                                                << i << " " << to_string(rank, rank.code[i]) << " and " << j
                                                << (j < size ? " " + to_string(rank, rank.code[j]) : "");
      };
      for (std::size_t i = 0; i < size; ++i) {
        look(Change::kDrop, i, i);
        look(Change::kDouble, i, i + 1);
        look(Change::kDouble, i, random() % (size + 1));
        if (i + 1 < size) look(Change::kSwap, i, i + 1);
        look(Change::kSwap, i, random() % size);
      }
    }
  }
  RecordProperty("rejected", rejected);
  RecordProperty("harmless", harmless);
  std::cout << rejected << " mutants rejected, " << harmless << " change nothing\n";
  EXPECT_GT(rejected, 8000);
}

// Whatever the schedule, the number of coordinates, the ZeRO stage, when gradients are reduced, how many units are
// gathered at a time: by symbols, the same weights come out.
TEST(Meaning, IsThatOfOneRankUnderEveryPlan) {
  const ModelConfig model = tiny_llama(6);
  for (const int dp : {1, 2}) {
    const std::map<std::string, std::uint64_t> wanted = weights_of(real(model, plan_of("naive", 1, 8, 0, dp)));
    ASSERT_EQ(wanted.size(), 8U);
    int seen = 0;
    for (const ScheduleKind& kind : schedule_kinds())
      for (const int pp : {1, 2, 3, 4})
        for (const int zero : {0, 1, 2, 3})
          for (const GradientReduce reduce : {GradientReduce::kStep, GradientReduce::kMicrobatch})
            for (const int live : {1, 2, 3}) {
              if ((live != 2 && zero < 3) || (dp == 1 && zero > 0) ||
                  (zero < 2 && reduce == GradientReduce::kMicrobatch))
                continue;
              Plan plan = plan_of(kind.id, pp, 8, zero, dp);
              plan.reduce = reduce, plan.live_units = live;
              if (!violations(kind, schedule_shape(plan)).empty()) continue;
              const std::string name = str(kind.id, " pp ", pp, " zero ", zero, " live ", live, " dp ", dp);
              const Program program = real(model, plan);
              const Examination e = examine(program);
              ASSERT_TRUE(e.violations.empty()) << name << ": " << to_string(e.violations[0]);
              EXPECT_EQ(weights_of(program), wanted) << name;
              ++seen;
            }
    EXPECT_GT(seen, dp == 1 ? 25 : 250);
  }
}

}  // namespace
}  // namespace sextant
