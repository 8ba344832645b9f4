#include "sextant/ops/router.h"

#include <cmath>
#include <limits>

#include "sextant/base/errors.h"
#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {
namespace {

constexpr std::int64_t kMostVisits = 64;

// Scores of one token's experts from their logits, in place: softmax over all, or a sigmoid of each.
template <class T>
void score(const RouterRule& rule, T* p, std::int64_t experts) {
  if (rule.sigmoid) {
    for (std::int64_t e = 0; e < experts; ++e) p[e] = T{1} / (T{1} + std::exp(-p[e]));
    return;
  }
  T greatest = p[0], sum = 0;
  for (std::int64_t e = 1; e < experts; ++e) greatest = std::max(greatest, p[e]);
  for (std::int64_t e = 0; e < experts; ++e) sum += p[e] = std::exp(p[e] - greatest);
  for (std::int64_t e = 0; e < experts; ++e) p[e] /= sum;
}

// Reads: x, w, (b). Writes: weights[tokens A], experts[tokens A]: the greatest scores; of equal ones the first.
// Scores that are not numbers choose experts too, each once: the loss then says what is wrong.
template <class T>
void router_forward(const KernelCall& c) {
  const RouterRule& rule = static_cast<const Router&>(c.op).rule;
  const std::int64_t experts = c.reads[1].size('E'), width = c.reads[1].last(1), tokens = c.reads[0].rows(1),
                     visits = rule.top_k;
  constexpr T kTaken = -std::numeric_limits<T>::infinity();  // scores are not negative
  T* const scores = static_cast<T*>(c.scratch);
  product_forward<T>(c.team, tokens, experts, width, c.reads[0].as<T>(), c.reads[1].as<T>(),
                     c.reads.size() > 2 ? c.reads[2].as<T>() : nullptr, scores);
  T* const weights = c.writes[0].as<T>();
  auto* const chosen = c.writes[1].as<std::int32_t>();
  c.team.split(tokens, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      T *p = scores + t * experts, *own = weights + t * visits;
      auto* to = chosen + t * visits;
      score(rule, p, experts);
      T sum = 0;
      for (std::int64_t a = 0; a < visits; ++a) {
        std::int64_t best = -1;
        for (std::int64_t e = 0; e < experts; ++e)
          if (p[e] != kTaken && (best < 0 || p[e] > p[best])) best = e;
        to[a] = static_cast<std::int32_t>(best);
        sum += own[a] = p[best];
        p[best] = kTaken;
      }
      const T scale = static_cast<T>(rule.scale) / (rule.normalises ? sum : T{1});
      for (std::int64_t a = 0; a < visits; ++a) own[a] *= scale;
    }
  });
}

// Reads: x, w, weights, experts, dweights. Writes: dx, dw.
template <class T>
void router_backward(const KernelCall& c) {
  const RouterRule& rule = static_cast<const Router&>(c.op).rule;
  const std::int64_t experts = c.reads[1].size('E'), width = c.reads[1].last(1), tokens = c.reads[0].rows(1),
                     visits = rule.top_k;
  const T *x = c.reads[0].as<T>(), *w = c.reads[1].as<T>(), *dweights = c.reads[4].as<T>();
  const auto* chosen = c.reads[3].as<std::int32_t>();
  check(visits <= kMostVisits, "a token visits few experts");
  T* const logits = static_cast<T*>(c.scratch);
  product_forward<T>(c.team, tokens, experts, width, x, w, nullptr, logits);
  c.team.split(tokens, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      T* p = logits + t * experts;
      const auto* to = chosen + t * visits;
      const T* g = dweights + t * visits;
      score(rule, p, experts);
      // weight_a = scale s_a / N, N the sum of the chosen scores or 1.
      T sum = 0, mean = 0;
      for (std::int64_t a = 0; a < visits; ++a) sum += p[to[a]], mean += g[a] * p[to[a]];
      const T norm = rule.normalises ? sum : T{1}, scale = static_cast<T>(rule.scale) / norm;
      mean = rule.normalises ? mean / norm : T{0};
      // s ds at the chosen experts, and its sum, which softmax takes from all of them.
      T d[kMostVisits], inner = 0;
      for (std::int64_t a = 0; a < visits; ++a) {
        d[a] = scale * (g[a] - mean) * p[to[a]];
        inner += d[a];
        if (rule.sigmoid) d[a] *= T{1} - p[to[a]];
      }
      for (std::int64_t e = 0; e < experts; ++e) p[e] = rule.sigmoid ? T{0} : -inner * p[e];
      for (std::int64_t a = 0; a < visits; ++a) p[to[a]] += d[a];
    }
  });
  if (c.writes[0].data) product_input<T>(c.team, tokens, experts, width, logits, w, c.add[0], c.writes[0].as<T>());
  if (c.writes[1].data) product_weight<T>(c.team, tokens, experts, width, logits, x, c.add[1], c.writes[1].as<T>());
}

}  // namespace

void add_router_kernels(KernelTable& table) {
  table.add("router", Pass::kF, router_forward<float>, router_forward<double>);
  table.add("router", Pass::kI, router_backward<float>, router_backward<double>);
}

}  // namespace sextant
