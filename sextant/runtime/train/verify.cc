#include "sextant/runtime/train/verify.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sextant/base/errors.h"
#include "sextant/plan/pipeline_parallel.h"

namespace sextant {
namespace {

constexpr int kMostRanks = 256;

// A model of the same family and features, whose sizes the plan still divides, and those awkward that may be.
ModelConfig small(const ModelConfig& model, const Plan& plan, int num_stages) {
  ModelConfig c = model;
  if (plan.stages.empty()) {
    c.layers = std::min<std::int64_t>(model.layers, std::max(4, num_stages - 2));
    if (!c.slides.empty()) c.slides.resize(static_cast<std::size_t>(c.layers));
  }
  // Heads that tp divides, with kv heads in the model's ratio as far as that goes.
  const std::int64_t ratio = model.heads / std::gcd(model.heads, model.kv_heads);
  c.heads = std::lcm<std::int64_t>(std::lcm<std::int64_t>(plan.tp, ratio),
                                   plan.cp_kind == CpKind::kUlysses ? plan.tp * plan.cp : 1);
  c.kv_heads = c.heads / ratio * (model.kv_heads / std::gcd(model.heads, model.kv_heads));

  if (plan.cp > 1 && plan.cp_kind == CpKind::kUlysses)
    c.kv_heads = std::lcm<std::int64_t>(c.kv_heads, plan.tp * plan.cp);
  c.heads = std::lcm(c.heads, c.kv_heads);
  c.head_width = std::min<std::int64_t>(model.head_width, 4);
  while (c.heads * c.head_width < 16) c.heads *= 2, c.kv_heads *= 2;
  if (c.rotary_width > 0) c.rotary_width = std::min<std::int64_t>(c.rotary_width, c.head_width);
  c.width = c.heads * c.head_width;
  c.ffn_width = plan.tp * 5;
  c.vocabulary = std::min<std::int64_t>(model.vocabulary, 61);
  if (MixtureConfig& m = c.mixture; m.experts > 0) {
    m.router.top_k = std::min<std::int64_t>(m.router.top_k, 4);
    m.experts = (std::max<std::int64_t>(m.router.top_k + 1, 4) + plan.ep - 1) / plan.ep * plan.ep;
    m.expert_width = plan.etp * 3;
    if (m.shared_width > 0) m.shared_width = plan.tp * 4;
    m.first_dense = std::min<std::int64_t>(m.first_dense, c.layers - 1);
    m.also_dense.clear();
    m.imbalance = 0;
    m.make_room();
  }
  if (c.attention.window > 0) c.attention.window = std::min<std::int64_t>(c.attention.window, 5);
  c.initial_deviation = 0.2;  // large enough that every gradient matters
  return c;
}

}  // namespace

double Verdict::worst_error() const { return std::max({loss_error, norm_error, gradient.error, weight.error}); }

std::string Verdict::worst_tensor() const {
  const double worst = worst_error();
  return worst == gradient.error ? "gradient of " + gradient.tensor
         : worst == weight.error ? "weight " + weight.tensor
         : worst == loss_error   ? "loss"
                                 : "gradient norm";
}

bool Verdict::holds(double tolerance) const {
  return worst_error() <= tolerance && ranks_agree && bytes_match && peak_matches;
}

Verdict verify(const ModelConfig& model, const Plan& asked, const Workload& asked_workload, ProofModel which) {
  if (const std::string why = model.not_trained(); !why.empty()) throw InvalidInput(model.family + ": " + why);
  ProofRun run;
  run.model = model, run.plan = asked, run.workload = asked_workload;
  run.workload.dtype = DType::kF64;
  Verdict verdict;
  std::vector<std::string> scaled;
  if (which == ProofModel::kSmall) {
    run.model = small(model, asked, num_stages_of(asked));
    if (run.model.layers != model.layers) scaled.push_back(str(run.model.layers, " of ", model.layers, " layers"));
    scaled.push_back(str("width ", run.model.width, " of ", model.width, ", ", run.model.heads, " of ", model.heads,
                         " heads, vocabulary ", run.model.vocabulary, " of ", model.vocabulary));
    // Data-parallel ranks that repeat each other: two of each kind show what more would.
    Plan& p = run.plan;
    while (p.num_ranks() > kMostRanks && std::max(p.dp_shard, p.dp_replicate) > 2)
      (p.dp_shard >= p.dp_replicate ? p.dp_shard : p.dp_replicate) = 2;
    if (p.data_ranks() != asked.data_ranks())
      scaled.push_back(str(p.data_ranks(), " of ", asked.data_ranks(), " data-parallel ranks"));
    p.microbatch_size = 1;
    const std::int64_t slices = std::int64_t{p.cp} * p.tp;
    run.workload.sequence = std::min<std::int64_t>(asked_workload.sequence, (15 + slices) / slices * slices);
    run.workload.global_batch = p.num_microbatches * p.data_ranks();
    scaled.push_back(str(run.workload.global_batch, " sequences of ", run.workload.sequence, " tokens"));
    p.bucket = {std::min<std::int64_t>(p.bucket.value, 4000)};
  }
  if (run.plan.num_ranks() > kMostRanks)
    throw InvalidInput(str("the plan has ", run.plan.num_ranks(), " ranks even with two data-parallel ones; at most ",
                           kMostRanks, " are run on one machine: verify it with smaller tp, cp or pp"));
  validate(run.plan, run.model, run.workload, "the plan to verify");
  verdict.ranks = run.plan.num_ranks();
  verdict.scaled = join(scaled, "; ");
  run.source = uneven_samples(run.model.vocabulary);
  ProofRun one = run;
  one.plan = Plan{};
  one.plan.microbatch_size = one.workload.global_batch;
  const ProofOutcome got = prove(run), wanted = prove(one);
  for (std::size_t s = 0; s < got.results.size(); ++s) {
    const auto relative = [](double a, double b) { return a == b ? 0 : std::abs(a - b) / std::abs(b); };
    verdict.loss_error = std::max(verdict.loss_error, relative(got.results[s].loss, wanted.results[s].loss));
    verdict.norm_error = std::max(verdict.norm_error, relative(got.results[s].grad_norm, wanted.results[s].grad_norm));
  }
  verdict.gradient = compare(got.gradients, wanted.gradients);
  verdict.weight = compare(got.weights, wanted.weights);
  verdict.ranks_agree = got.ranks_agree, verdict.bytes_match = got.bytes_match, verdict.peak_matches = got.peak_matches;
  return verdict;
}

}  // namespace sextant
