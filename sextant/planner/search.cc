#include <algorithm>
#include <cmath>

#include "sextant/base/errors.h"
#include "sextant/plan/pipeline_parallel.h"
#include "sextant/planner/planner.h"

namespace sextant {
namespace {

constexpr std::int64_t kMostMicrobatches = 1 << 14;

std::vector<int> divisors(int n, std::int64_t most) {
  std::vector<int> out;
  for (int d = 1; d <= n && d <= most; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

bool takes_tp(const ModelConfig& m, int tp) {
  const bool kv = m.kv_heads >= tp ? m.kv_heads % tp == 0 : tp % m.kv_heads == 0;
  return m.heads % tp == 0 && kv && (!m.has_dense_ffn() || m.ffn_width % tp == 0) && m.mixture.shared_width % tp == 0 &&
         m.vocabulary >= tp;
}

bool takes_cp(const Request& r, int cp) {
  return r.workload.sequence % (2 * cp) == 0 && r.workload.sequence / cp >= 1024;
}

}  // namespace

Space space_of(const Request& r) {
  Space s;
  for (const int d : divisors(r.devices, r.devices)) {
    if (takes_tp(r.model, d)) s.tp.push_back(d);
    if (d == 1 || takes_cp(r, d)) s.cp.push_back(d);
    if (d <= r.model.layers + 2) s.pp.push_back(d);
  }
  if (const MixtureConfig& m = r.model.mixture; m.experts > 0) {
    s.ep = s.etp = {};
    for (const int d : divisors(r.devices, r.devices)) {
      if (m.experts % d == 0) s.ep.push_back(d);
      if (m.expert_width % d == 0 && d <= r.cluster.levels[0].size) s.etp.push_back(d);
    }
  }
  for (std::int64_t b = 1; b <= std::min<std::int64_t>(16, r.workload.global_batch); b *= 2)
    s.microbatch_sizes.push_back(b);
  for (int v = 1; v <= std::min<std::int64_t>(16, r.model.layers); ++v) s.virtual_stages.push_back(v);
  s.zero = {0, 1, 2, 3};
  for (std::size_t l = 0; l + 1 < r.cluster.levels.size(); ++l)
    if (r.cluster.levels[l].size < r.devices) s.shard_levels.push_back(r.cluster.levels[l].size);
  s.schedules = {"1f1b", "interleaved", "zb-h1", "zb-v"};
  s.recomputes = {{}, {.ops = {"norm", "act"}}, {.full = true}};
  if (r.model.attention_core == AttentionCore::kUnfused) s.recomputes.push_back({.ops = {"attention"}});
  return s;
}

Plan plan_of(const Candidate& c, const Space& space) {
  Plan p;
  p.dp_replicate = c.replicas, p.dp_shard = c.dp / c.replicas, p.cp = c.cp, p.tp = c.tp, p.pp = c.pp;
  p.ep = c.ep, p.etp = c.etp;
  p.sequence_parallel = c.tp > 1;
  if (c.cp > 1) p.cp_slices = Slices::kZigzag;
  p.zero = c.zero;
  p.reduce = c.zero >= 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
  p.bucket = c.zero == 3 ? Bytes{0} : space.bucket;
  p.schedule = space.schedules[static_cast<std::size_t>(c.schedule)];
  p.virtual_stages = c.virtual_stages > 1 ? c.virtual_stages : 0;
  p.recompute = space.recomputes[static_cast<std::size_t>(c.recompute)];
  p.microbatch_size = c.microbatch_size, p.num_microbatches = c.num_microbatches;
  return p;
}

namespace {

// Calls `body` with a candidate for every way to lay out the ranks and to cut the batch.
void for_each_layout(const Request& r, const Space& s, Counts& counts, const auto& body) {
  const std::int64_t batch = r.workload.global_batch;
  for (const int tp : s.tp)
    for (const int cp : s.cp)
      for (const int pp : s.pp)
        for (const std::int64_t size : s.microbatch_sizes) {
          const std::int64_t inner = std::int64_t{tp} * cp, others = inner * pp, dp = r.devices / others;
          if (dp == 0 || r.devices % others != 0 || r.workload.sequence % inner != 0 || batch % (dp * size) != 0 ||
              batch / (dp * size) > kMostMicrobatches) {
            ++counts.considered, ++counts.indivisible;
            continue;
          }
          body(Candidate{.dp = static_cast<int>(dp),
                         .tp = tp,
                         .cp = cp,
                         .pp = pp,
                         .microbatch_size = static_cast<int>(size),
                         .num_microbatches = static_cast<int>(batch / (dp * size))});
        }
}

// The schedules and numbers of chunks that a layout takes.
void for_each_schedule(const Request& r, const Space& s, Candidate c, Counts& counts, const auto& body) {
  for (std::size_t kind = 0; kind < s.schedules.size(); ++kind) {
    const ScheduleKind& schedule = find_schedule(s.schedules[kind]);
    if (c.pp == 1 && kind > 0) return;  // one coordinate has no order to choose
    // A schedule that takes several numbers of chunks is another one with the least.
    const int least = schedule.least_virtual + (schedule.most_virtual > schedule.least_virtual ? 1 : 0);
    for (const int v : s.virtual_stages) {
      const bool is_taken =
          c.pp == 1 ? v == 1 : v >= std::max(least, schedule.least_virtual) && v <= schedule.most_virtual;
      if (!is_taken) continue;
      // A short last group may wait for itself (docs/schedules.md).
      const bool short_group =
          v > 1 && schedule.has_group && c.num_microbatches % c.pp != 0 && c.num_microbatches > c.pp;
      if (std::int64_t{c.pp} * v > r.model.layers + 2 || short_group) {
        ++counts.considered, ++counts.indivisible;
        continue;
      }
      c.schedule = static_cast<int>(kind), c.virtual_stages = v;
      body(c);
    }
  }
}

// The ways to spread experts over a layout's ranks.
void for_each_expert_grid(const Space& s, Candidate c, Counts& counts, const auto& body) {
  for (const int ep : s.ep)
    for (const int etp : s.etp) {
      if (std::int64_t{c.dp} * c.cp * c.tp % (std::int64_t{ep} * etp) != 0) {
        ++counts.considered, ++counts.indivisible;
        continue;
      }
      c.ep = ep, c.etp = etp;
      body(c);
    }
}

// One, and for ZeRO 3 without a pipeline as many as leave shards that fill a level.
std::vector<int> replicas_of(const Space& s, const Candidate& c, int zero) {
  std::vector<int> out{1};
  for (const int level : s.shard_levels) {
    const int shards = level / (c.tp * c.cp);  // of dp
    if (zero == 3 && c.pp == 1 && shards > 1 && shards < c.dp && c.dp % shards == 0 &&
        shards * c.cp * c.tp % (c.ep * c.etp) == 0)
      out.push_back(c.dp / shards);
  }
  return out;
}

// Every combination whose numbers divide.
void for_each(const Request& r, const Space& s, Counts& counts, const auto& body) {
  const auto with_stages = [&](Candidate c) {
    for (const int zero : s.zero) {
      const bool shards = c.shards() > 1 || (r.model.mixture.experts > 0 && c.expert_shards() > 1);
      if (zero > 0 && !shards) break;  // nothing to shard over
      for (const int replicas : replicas_of(s, c, zero))
        for (std::size_t recompute = 0; recompute < s.recomputes.size(); ++recompute) {
          c.zero = zero, c.replicas = replicas, c.recompute = static_cast<int>(recompute);
          ++counts.considered;
          body(c);
        }
    }
  };
  for_each_layout(r, s, counts, [&](const Candidate& layout) {
    for_each_expert_grid(s, layout, counts,
                         [&](const Candidate& c) { for_each_schedule(r, s, c, counts, with_stages); });
  });
}

}  // namespace

Ranked simulate_plan(const Request& r, const Plan& plan) {
  const Program program = build_program(build_model(r.model, sizes_of(plan, r.workload)), plan);
  Prices prices = cluster_prices(program, r.cluster);
  if (!r.slow.empty()) disturb(prices, {.factor = r.slow});
  Ranked out{.plan = plan, .bound = {}, .forecast = forecast(program, r.cluster, prices)};
  out.fits = out.forecast.peak <= r.cluster.device.memory;
  return out;
}

std::optional<Ranked> least_memory(const Request& r, const Space& space) {
  const Estimator estimator(r, space);
  Counts counts;
  std::vector<Candidate> all;
  for_each(r, space, counts, [&](Candidate& c) {
    if (estimator.price(c)) all.push_back(c);
  });
  const auto tried = static_cast<std::ptrdiff_t>(std::min<std::size_t>(24, all.size()));
  std::partial_sort(all.begin(), all.begin() + tried, all.end(),
                    [](const Candidate& x, const Candidate& y) { return x.memory < y.memory; });
  std::optional<Ranked> out;
  for (std::ptrdiff_t n = 0; n < tried; ++n) {
    const Plan plan = plan_of(all[static_cast<std::size_t>(n)], space);
    if (!violations(plan, r.model, r.workload).empty()) continue;
    Ranked ranked = simulate_plan(r, plan);
    if (!out || ranked.forecast.peak < out->forecast.peak) out = std::move(ranked);
  }
  return out;
}

Answer search(const Request& r, const Space& space, const SearchOptions& options) {
  Answer answer;
  const Estimator estimator(r, space);
  const auto room = static_cast<float>(r.cluster.device.memory.value);
  std::vector<Candidate> candidates;
  for_each(r, space, answer.counts, [&](Candidate& c) {
    if (!estimator.price(c)) {
      ++answer.counts.indivisible;
      return;
    }
    if (c.memory > room) {
      ++answer.counts.memory;
      return;
    }
    candidates.push_back(c);
  });
  const auto later = [](const Candidate& a, const Candidate& b) { return a.bound > b.bound; };
  std::make_heap(candidates.begin(), candidates.end(), later);
  double best = 0;
  int found = 0;
  Seconds proof;
  std::int64_t simulated_for_proof = 0;
  while (!candidates.empty()) {
    const Candidate next = candidates.front();
    answer.bound = {next.bound};
    // Behind the proof a few more, for the table.
    const bool is_proved = found > 0 && next.bound >= best;
    if (is_proved && proof.value == 0) proof = {next.bound}, simulated_for_proof = answer.counts.simulated;
    if (is_proved && (found > options.ranked || answer.counts.simulated >= simulated_for_proof + 4 * options.ranked))
      break;
    if (answer.counts.simulated >= options.most_simulated) {
      answer.proved = false;
      break;
    }
    std::pop_heap(candidates.begin(), candidates.end(), later);
    candidates.pop_back();
    const Plan plan = plan_of(next, space);
    if (!violations(plan, r.model, r.workload).empty()) {
      ++answer.counts.indivisible;
      continue;
    }
    ++answer.counts.simulated;
    Ranked ranked = simulate_plan(r, plan);
    ranked.bound = {next.bound};
    if (!ranked.fits) {
      ++answer.counts.too_large;
      if (!answer.closest || ranked.forecast.peak < answer.closest->forecast.peak) answer.closest = ranked;
      continue;
    }
    best = found == 0 ? ranked.forecast.step().value : std::min(best, ranked.forecast.step().value);
    ++found;
    answer.plans.push_back(std::move(ranked));
  }
  if (proof.value > 0) answer.bound = proof;
  answer.counts.bounded = static_cast<std::int64_t>(candidates.size());
  std::stable_sort(answer.plans.begin(), answer.plans.end(),
                   [](const Ranked& a, const Ranked& b) { return a.forecast.step() < b.forecast.step(); });
  if (answer.plans.empty()) {
    std::optional<Ranked> least = least_memory(r, space);
    if (least && (!answer.closest || least->forecast.peak < answer.closest->forecast.peak)) answer.closest = least;
  }
  if (static_cast<int>(answer.plans.size()) > options.ranked + 1)
    answer.plans.resize(static_cast<std::size_t>(options.ranked) + 1);
  if (!answer.plans.empty()) answer.uneven = with_uneven_stages(r, answer.plans[0]);
  answer.rule_of_thumb = rule_of_thumb(r, space);
  return answer;
}

std::optional<Ranked> rule_of_thumb(const Request& r, const Space& space) {
  const int fast = r.cluster.levels[0].size;
  const auto kind = [&](const char* id) {
    return static_cast<std::size_t>(std::find(space.schedules.begin(), space.schedules.end(), id) -
                                    space.schedules.begin());
  };
  const auto attempt = [&](int tp, int pp, int zero, std::size_t recompute, int v) -> std::optional<Ranked> {
    if (r.devices % (tp * pp) != 0 || pp > r.model.layers + 2) return std::nullopt;
    const int dp = r.devices / (tp * pp);
    if (r.workload.global_batch % dp != 0) return std::nullopt;
    Candidate c;
    c.dp = dp, c.tp = tp, c.pp = pp;
    for (const int ep : space.ep)  // experts spread over the fast domain
      if (ep <= fast && dp * tp % ep == 0) c.ep = ep;
    c.zero = dp > 1 ? zero : 0, c.recompute = static_cast<int>(recompute);
    c.num_microbatches = static_cast<std::int32_t>(r.workload.global_batch / dp);
    if (v > 1) c.virtual_stages = v, c.schedule = static_cast<int>(kind("interleaved"));
    if (static_cast<std::size_t>(c.schedule) >= space.schedules.size()) return std::nullopt;
    const Plan plan = plan_of(c, space);
    if (!violations(plan, r.model, r.workload).empty()) return std::nullopt;
    Ranked ranked = simulate_plan(r, plan);
    return ranked.fits ? std::optional(std::move(ranked)) : std::nullopt;
  };
  for (const std::size_t recompute : {std::size_t{0}, space.recomputes.size() > 2 ? std::size_t{2} : std::size_t{0}})
    for (const int zero : {1, 3}) {
      for (const int tp : space.tp)
        if (tp <= fast)
          if (auto fits = attempt(tp, 1, zero, recompute, 1)) return fits;
      int widest = 1;
      for (const int tp : space.tp)
        if (tp <= fast) widest = tp;
      for (const int pp : space.pp) {
        // Interleaved as finely as layers allow, else half as fine.
        const int finest = static_cast<int>((r.model.layers + 2) / pp);
        for (const int v : {finest, finest / 2})
          if (pp > 1 && v > 1)
            if (auto fits = attempt(widest, pp, zero, recompute, v)) return fits;
        if (auto fits = attempt(widest, pp, zero, recompute, 1)) return fits;
      }
    }
  return std::nullopt;
}

std::string difference(const Forecast& of, const Forecast& against) {
  const Breakdown &a = of.time, &b = against.time;
  struct Part {
    const char* what;
    double more;
  };
  std::vector<Part> parts = {
      {"compute", (a.compute - b.compute).value},      {"tp that nothing hides", (a.tp - b.tp).value},
      {"cp that nothing hides", (a.cp - b.cp).value},  {"ep that nothing hides", (a.ep - b.ep).value},
      {"dp that nothing hides", (a.dp - b.dp).value},  {"stage borders", (a.pipeline - b.pipeline).value},
      {"bubble", (a.bubble - b.bubble).value},         {"imbalance", (a.imbalance - b.imbalance).value},
      {"optimizer", (a.optimizer - b.optimizer).value}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& x, const Part& y) { return std::abs(x.more) > std::abs(y.more); });
  std::string out;
  for (const Part& part : parts) {
    const double share = part.more / b.makespan.value;
    if (std::abs(share) < 0.002 || (&part - parts.data()) >= 3) break;
    char text[64];
    std::snprintf(text, sizeof text, "%s%+.1f %% %s", out.empty() ? "" : ", ", 100 * share, part.what);
    out += text;
  }
  return out.empty() ? "the same within 0.2 %" : out;
}

}  // namespace sextant
