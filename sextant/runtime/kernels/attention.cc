#include "sextant/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/kernels/math.h"

// B batch, S queries, T keys, H heads, G kv heads, K head width. A stripe is up to kStripe queries of one head against
// the keys that any of them sees; only its scores exist at a time.

namespace sextant {
namespace {

struct Shape {
  std::int64_t B, S, T, H, G, K;
};
Shape shape_of(const View& q, const View& k) {
  return {q.size('B'), q.size('S'), k.size('S'), q.size('H'), k.size('G'), q.size('K')};
}

// The first key that a query sees: the loader's, or the start of its window.
std::int32_t first_key(std::int32_t first, std::int32_t last, std::int64_t window) {
  return window > 0 ? std::max(first, static_cast<std::int32_t>(last - window + 1)) : first;
}

struct Range {
  std::int64_t begin, end;
};
// The keys that queries [s0, s1) see.
Range visible(const std::int32_t* first, const std::int32_t* last, std::int64_t s0, std::int64_t s1,
              std::int64_t window) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (std::int64_t s = s0; s < s1; ++s) {
    begin = std::min<std::int64_t>(begin, first_key(first[s], last[s], window));
    end = std::max<std::int64_t>(end, last[s] + std::int64_t{1});
  }
  return {std::min(begin, end), end};
}

// What the rule makes of the scores of one query. `seen` and `own` number the first key of the row and the query's own.
template <class T>
struct Scoring {
  T scale, cap, slope = 0;
  // Without cap and slope a score is only scaled, which the exponential does on its way.
  bool is_plain() const { return cap == 0 && slope == 0; }
  T factor() const { return is_plain() ? scale : T{1}; }
  void apply(T* p, std::int64_t from, std::int64_t to, std::int64_t to_own) const {
    if (is_plain()) return;
    if (cap > 0) {
#pragma omp simd
      for (std::int64_t j = from; j < to; ++j) p[j] = cap * fast_tanh(p[j] * scale / cap);
    } else {
#pragma omp simd
      for (std::int64_t j = from; j < to; ++j) p[j] *= scale;
    }
    if (slope != 0) {
#pragma omp simd
      for (std::int64_t j = from; j < to; ++j) p[j] += slope * static_cast<T>(j - to_own);
    }
  }
};
template <class T>
Scoring<T> scoring_of(const AttentionRule& rule, std::int64_t width) {
  return {rule.scale > 0 ? static_cast<T>(rule.scale) : 1 / std::sqrt(static_cast<T>(width)),
          static_cast<T>(rule.softcap)};
}

// The part of a stripe's keys that one query sees; empty if it sees none.
Range row_range(std::int32_t first, std::int32_t last, const Range& keys) {
  const std::int64_t count = keys.end - keys.begin, from = std::clamp<std::int64_t>(first - keys.begin, 0, count);
  return {from, std::clamp<std::int64_t>(last + std::int64_t{1} - keys.begin, from, count)};
}

// Reads: q, k, v, first, last. Writes: o, lse.
template <class T>
void attention_forward(const KernelCall& c) {
  const Shape n = shape_of(c.reads[0], c.reads[1]);
  const T *q = c.reads[0].as<T>(), *k = c.reads[1].as<T>(), *v = c.reads[2].as<T>();
  const auto *first = c.reads[3].as<std::int32_t>(), *last = c.reads[4].as<std::int32_t>();
  T *o = c.writes[0].as<T>(), *lse = c.writes[1].as<T>();
  const AttentionRule& rule = static_cast<const Attention&>(c.op).rule;
  const Scoring<T> scoring = scoring_of<T>(rule, n.K);
  const std::vector<double> slopes =
      rule.alibi ? alibi_slopes(n.H) : std::vector<double>(static_cast<std::size_t>(n.H));
  const std::int64_t row = n.H * n.K, kv_row = n.G * n.K, stripes = (n.S + Attention::kStripe - 1) / Attention::kStripe;
  const std::int64_t tasks = n.B * n.H * stripes, threads = c.team.threads();
  c.team.run([&](int thread) {
    T* scores = static_cast<T*>(c.scratch) + thread * Attention::kStripe * n.T;
    for (std::int64_t task = thread; task < tasks; task += threads) {
      const std::int64_t s0 = task % stripes * Attention::kStripe, s1 = std::min(s0 + Attention::kStripe, n.S);
      const std::int64_t h = task / stripes % n.H, b = task / stripes / n.H, g = h * n.G / n.H;
      const Range keys = visible(first + b * n.S, last + b * n.S, s0, s1, rule.window);
      const std::int64_t count = keys.end - keys.begin;
      const T* qs = q + (b * n.S + s0) * row + h * n.K;
      const T* ks = k + (b * n.T + keys.begin) * kv_row + g * n.K;
      const T* vs = v + (b * n.T + keys.begin) * kv_row + g * n.K;
      T* os = o + (b * n.S + s0) * row + h * n.K;
      Scoring<T> row_scoring = scoring;
      row_scoring.slope = static_cast<T>(slopes[static_cast<std::size_t>(h)]);
      gemm<T>(Transpose::kNo, Transpose::kYes, s1 - s0, count, n.K, qs, row, ks, kv_row, 0, scores, count);
      for (std::int64_t s = s0; s < s1; ++s) {
        T* p = scores + (s - s0) * count;
        const std::int32_t own = last[b * n.S + s];
        const Range row_keys = row_range(first_key(first[b * n.S + s], own, rule.window), own, keys);
        const std::int64_t from = row_keys.begin, to = row_keys.end;
        row_scoring.apply(p, from, to, own - keys.begin);
        const T factor = row_scoring.factor();
        T most = -std::numeric_limits<T>::infinity(), sum = 0;
#pragma omp simd reduction(max : most)
        for (std::int64_t j = from; j < to; ++j) most = std::max(most, p[j]);
        most *= factor;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = from; j < to; ++j) sum += p[j] = fast_exp(p[j] * factor - most);
        const T inverse = sum > 0 ? 1 / sum : T{0};
#pragma omp simd
        for (std::int64_t j = from; j < to; ++j) p[j] *= inverse;
        std::fill(p, p + from, T{0});
        std::fill(p + to, p + count, T{0});
        lse[(b * n.S + s) * n.H + h] = most + std::log(sum);
      }
      gemm<T>(Transpose::kNo, Transpose::kNo, s1 - s0, n.K, count, scores, count, vs, kv_row, 0, os, row);
    }
  });
}

// Reads: q, k, v, first, last, o, lse, do. Writes: dq, dk, dv. A kv head and all that queries it belong to one thread,
// which adds their parts in a fixed order.
template <class T>
void attention_backward(const KernelCall& c) {
  const Shape n = shape_of(c.reads[0], c.reads[1]);
  const T *q = c.reads[0].as<T>(), *k = c.reads[1].as<T>(), *v = c.reads[2].as<T>(), *o = c.reads[5].as<T>(),
          *lse = c.reads[6].as<T>(), *d_o = c.reads[7].as<T>();
  const auto *first = c.reads[3].as<std::int32_t>(), *last = c.reads[4].as<std::int32_t>();
  T *dq = c.writes[0].as<T>(), *dk = c.writes[1].as<T>(), *dv = c.writes[2].as<T>();
  const AttentionRule& rule = static_cast<const Attention&>(c.op).rule;
  const Scoring<T> scoring = scoring_of<T>(rule, n.K);
  const std::vector<double> slopes =
      rule.alibi ? alibi_slopes(n.H) : std::vector<double>(static_cast<std::size_t>(n.H));
  const std::int64_t row = n.H * n.K, kv_row = n.G * n.K, group = n.H / n.G, tasks = n.B * n.G,
                     threads = c.team.threads();
  c.team.run([&](int thread) {
    T* p = static_cast<T*>(c.scratch) + thread * Attention::kStripe * 2 * n.T;
    T* dp = p + Attention::kStripe * n.T;
    for (std::int64_t task = thread; task < tasks; task += threads) {
      const std::int64_t b = task / n.G, g = task % n.G;
      for (std::int64_t t = 0; t < n.T; ++t) {
        if (!c.add[1]) std::memset(dk + (b * n.T + t) * kv_row + g * n.K, 0, static_cast<std::size_t>(n.K) * sizeof(T));
        if (!c.add[2]) std::memset(dv + (b * n.T + t) * kv_row + g * n.K, 0, static_cast<std::size_t>(n.K) * sizeof(T));
      }
      for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
        const T slope = static_cast<T>(slopes[static_cast<std::size_t>(h)]);
        for (std::int64_t s0 = 0; s0 < n.S; s0 += Attention::kStripe) {
          const std::int64_t s1 = std::min(s0 + Attention::kStripe, n.S), rows = s1 - s0;
          const Range keys = visible(first + b * n.S, last + b * n.S, s0, s1, rule.window);
          const std::int64_t count = keys.end - keys.begin;
          const std::int64_t at = (b * n.S + s0) * row + h * n.K, kv_at = (b * n.T + keys.begin) * kv_row + g * n.K;
          gemm<T>(Transpose::kNo, Transpose::kYes, rows, count, n.K, q + at, row, k + kv_at, kv_row, 0, p, count);
          gemm<T>(Transpose::kNo, Transpose::kYes, rows, count, n.K, d_o + at, row, v + kv_at, kv_row, 0, dp, count);
          for (std::int64_t s = s0; s < s1; ++s) {
            T *ps = p + (s - s0) * count, *ds = dp + (s - s0) * count;
            const std::int32_t own = last[b * n.S + s];
            const Range row_keys = row_range(first_key(first[b * n.S + s], own, rule.window), own, keys);
            const std::int64_t from = row_keys.begin, to = row_keys.end;
            const T *os = o + at + (s - s0) * row, *dos = d_o + at + (s - s0) * row;
            T delta = 0;
            for (std::int64_t i = 0; i < n.K; ++i) delta += os[i] * dos[i];
            const T log_sum = lse[(b * n.S + s) * n.H + h];
            std::fill(ps, ps + from, T{0});
            std::fill(ds, ds + from, T{0});
            if (scoring.cap > 0) {  // the slope of the cap, 1 - (capped / cap)^2
              const T cap = scoring.cap, scale = scoring.scale;
#pragma omp simd
              for (std::int64_t j = from; j < to; ++j) {
                const T t = fast_tanh(ps[j] * scale / cap);
                const T bias = slope * static_cast<T>(j - (own - keys.begin));
                ps[j] = fast_exp(cap * t + bias - log_sum);
                ds[j] = ps[j] * (ds[j] - delta) * (1 - t * t) * scale;
              }
            } else if (slope == 0) {
              const T scale = scoring.scale;
#pragma omp simd
              for (std::int64_t j = from; j < to; ++j) {
                ps[j] = fast_exp(ps[j] * scale - log_sum);
                ds[j] = ps[j] * (ds[j] - delta) * scale;
              }
            } else {
              const T scale = scoring.scale;
#pragma omp simd
              for (std::int64_t j = from; j < to; ++j) {
                ps[j] = fast_exp(ps[j] * scale + slope * static_cast<T>(j - (own - keys.begin)) - log_sum);
                ds[j] = ps[j] * (ds[j] - delta) * scale;
              }
            }
            std::fill(ps + to, ps + count, T{0});
            std::fill(ds + to, ds + count, T{0});
          }
          gemm<T>(Transpose::kYes, Transpose::kNo, count, n.K, rows, p, count, d_o + at, row, 1, dv + kv_at, kv_row);
          gemm<T>(Transpose::kYes, Transpose::kNo, count, n.K, rows, dp, count, q + at, row, 1, dk + kv_at, kv_row);
          gemm<T>(Transpose::kNo, Transpose::kNo, rows, n.K, count, dp, count, k + kv_at, kv_row, c.add[0] ? 1 : 0,
                  dq + at, row);
        }
      }
    }
  });
}

}  // namespace

void add_attention_kernels(KernelTable& table) {
  table.add("attention", Pass::kF, attention_forward<float>, attention_forward<double>);
  table.add("attention", Pass::kI, attention_backward<float>, attention_backward<double>);
}

}  // namespace sextant
