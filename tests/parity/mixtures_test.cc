// The proof of mixtures: plans drawn from all that is valid on up to eight ranks, each against one rank.
//   build/dev/bin/parity_mixtures                       the representative set of ./test
//   SEXTANT_MIXTURES=2000 build/dev/bin/parity_mixtures   more of them
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "sextant/base/errors.h"
#include "sextant/plan/pipeline_parallel.h"
#include "tests/support/parity.h"

namespace sextant {
namespace {

struct Drawn {
  std::string family, words;
  ProofRun run;
};

// A plan of each field at random; empty if it is not valid.
std::optional<Drawn> draw(std::mt19937& random) {
  const auto one_of = [&](const auto& list) { return list[random() % list.size()]; };
  const auto among = [&](std::vector<int> list) { return one_of(list); };
  static const std::vector<std::string> kFamilies = {"gpt2",    "llama",  "llama tied", "qwen3",   "olmo2",
                                                     "mistral", "gemma2", "gpt_neox",   "mixtral", "qwen3_moe"};
  Drawn d;
  d.family = one_of(kFamilies);
  ModelConfig model = d.family == "gpt2"         ? tiny_gpt2(3)
                      : d.family == "llama"      ? tiny_llama(3)
                      : d.family == "llama tied" ? tiny_llama(3, 0.1, true)
                      : d.family == "qwen3"      ? tiny_qwen3(3)
                      : d.family == "mixtral"    ? tiny_mixture()
                      : d.family == "qwen3_moe"  ? tiny_mixture(true)
                                                 : tiny_of(d.family, 0.1);
  model.layers = among({2, 3, 5, 6});
  if (!model.slides.empty()) model.slides.assign(static_cast<std::size_t>(model.layers), true), model.slides[0] = false;
  Plan p;
  p.dp_replicate = among({1, 1, 2}), p.dp_shard = among({1, 1, 2, 3, 4}), p.cp = among({1, 1, 2, 4}),
  p.tp = among({1, 1, 2, 4});
  p.pp = among({1, 2, 2, 3, 4});
  if (p.num_ranks() > 8 || p.num_ranks() < 2) return std::nullopt;
  p.sequence_parallel = p.tp > 1 && random() % 2;
  if (model.mixture.experts > 0) p.ep = among({1, 2, 2, 4}), p.etp = among({1, 1, 2});
  p.cp_kind = random() % 2 ? CpKind::kAllGather : CpKind::kUlysses;
  p.cp_slices = random() % 2 ? Slices::kContiguous : Slices::kZigzag;
  p.w_inputs = random() % 2 ? WInputs::kGather : WInputs::kKeep;
  p.border = random() % 2 ? StageBorder::kSlice : StageBorder::kWhole;
  p.zero = among({0, 1, 2, 3, 3});
  p.reduce = p.zero >= 2 && random() % 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
  p.live_units = among({1, 2, 3});
  p.bucket = {among({0, 1, 4000})};
  p.schedule = one_of(schedule_kinds()).id;
  const ScheduleKind& kind = find_schedule(p.schedule);
  p.virtual_stages = kind.most_virtual > kind.least_virtual ? among({2, 3}) : 0;
  p.num_microbatches = among({1, 2, 3, 4, 6, 8});
  if (random() % 3 == 0) p.recompute.full = true;
  if (!p.recompute.full && random() % 3 == 0) p.recompute.ops = {random() % 2 ? "norm" : "act", "attention"};
  if (p.recompute.any() && random() % 2) p.recompute.layers = 1;
  d.run = run_of(model, p.num_microbatches * p.data_ranks(), 1, p.num_microbatches);
  p.microbatch_size = 1;
  d.run.plan = p;
  if (!violations(p, model, d.run.workload).empty()) return std::nullopt;
  if (random() % 2) {  // uneven stages
    std::vector<int> stages = balanced_stages(static_cast<int>(model.layers) + 2, num_stages_of(p));
    const std::size_t from = random() % stages.size(), to = random() % stages.size();
    if (stages[from] > 1) --stages[from], ++stages[to];
    d.run.plan.stages = stages;
  }
  d.words = str(d.family, " x", model.layers, ": dp ", p.dp_replicate, "x", p.dp_shard, " cp ", p.cp,
                p.cp > 1 ? str(" ", name_of(p.cp_kind), p.cp_slices == Slices::kZigzag ? " zigzag" : "") : "", " tp ",
                p.tp, p.sequence_parallel ? " sp" : "", " ep ", p.ep, " etp ", p.etp, " pp ", p.pp, " ", p.schedule,
                " V ", p.virtual_stages, " M ", p.num_microbatches, " zero ", p.zero,
                p.reduce == GradientReduce::kMicrobatch ? " each" : "", " live ", p.live_units,
                p.recompute.any() ? p.recompute.full ? " full" : " ops" : "");
  return d;
}

TEST(Mixtures, EqualOneRank) {
  const char* asked = std::getenv("SEXTANT_MIXTURES");
  const int wanted = asked ? std::atoi(asked) : 160;
  std::mt19937 random(11);
  std::map<std::pair<std::string, std::int64_t>, ProofOutcome> references;  // of small models: by family, layers, batch
  double worst = 0;
  std::string worst_of;
  int seen = 0, ran = 0;
  for (int tries = 0; seen < wanted && tries < 1000 * wanted; ++tries) {
    std::optional<Drawn> drawn = draw(random);
    if (!drawn) continue;
    ++seen;
    // On processes the mixtures of their number, a tenth or so of all.
    if (job_size() > 0 && drawn->run.plan.num_ranks() != job_size()) continue;
    if (job_size() > 0 && ran >= 15) break;
    ++ran;
    ProofRun one = drawn->run;
    one.plan = Plan{};
    one.plan.microbatch_size = one.workload.global_batch;
    const std::string key = str(drawn->family, " ", one.model.layers);
    auto& reference = references[{key, one.workload.global_batch}];
    if (reference.results.empty()) reference = prove(one);
    const ProofOutcome got = prove(drawn->run);
    expect_equal(got, reference, drawn->words);
    if (got.results.empty()) continue;
    const double error =
        std::max(compare(got.gradients, reference.gradients).error, compare(got.weights, reference.weights).error);
    if (error > worst) worst = error, worst_of = drawn->words;
  }
  EXPECT_GE(ran, 10);
  if (job_size() == 0) {
    EXPECT_EQ(seen, wanted);
    std::cout << seen << " mixtures; greatest relative difference " << worst << " (" << worst_of << ")\n";
  }
}

}  // namespace
}  // namespace sextant
