#include "sextant/ops/head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sextant/base/slices.h"
#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

// One row of logits, `count` of `all`, on its way from scores to the gradient of the loss.
template <class T>
struct LogitRow {
  T* row;
  std::int64_t count, all;
  const HeadRule& rule;
  const T cap = static_cast<T>(rule.softcap);
  const T even = static_cast<T>(rule.label_smoothing / static_cast<double>(all));  // of the target, at every logit
  const T own = static_cast<T>(1 - rule.label_smoothing);                          // of the target, at the label

  bool has(std::int64_t label) const { return label >= 0 && label < count; }

  void apply_cap() const {
    if (cap <= 0) return;
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) row[j] = cap * fast_tanh(row[j] / cap);
  }
  T greatest() const {
    T most = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : most)
    for (std::int64_t j = 0; j < count; ++j) most = std::max(most, row[j]);
    return most;
  }
  // What of target . logits this row has.
  T wanted(std::int64_t label) const {
    T sum = 0;
    if (even > 0) {
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < count; ++j) sum += row[j];
    }
    return even * sum + (has(label) ? own * row[label] : T{0});
  }
  // The sum of exponentials, which take the place of the logits unless the cap still needs those.
  T exponentials(T most) const {
    T sum = 0;
    if (cap > 0) {
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < count; ++j) sum += fast_exp(row[j] - most);
    } else {
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < count; ++j) sum += row[j] = fast_exp(row[j] - most);
    }
    return sum;
  }
  // scale (softmax (1 + 2 z lse) - target), times the slope of the cap, 1 - (capped / cap)^2. `label` is outside of
  // the row where another rank has it.
  void gradient(T most, T sum, T lse, T scale, std::int64_t label) const {
    const T factor = scale * (1 + 2 * static_cast<T>(rule.z_loss) * lse) / sum, less = scale * even;
    if (cap > 0) {
      const T target = has(label) ? row[label] : T{0};
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j)
        row[j] = (factor * fast_exp(row[j] - most) - less) * (1 - (row[j] / cap) * (row[j] / cap));
      if (has(label)) row[label] -= scale * own * (1 - (target / cap) * (target / cap));
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) row[j] = row[j] * factor - less;
      if (has(label)) row[label] -= scale * own;
    }
  }
};

// Reads: x, w, labels. Writes: loss (f64), dx, dw, -. By chunks of tokens: logits, softmax and loss in place, products.
// A vocabulary that is split over ranks completes the maximum of each token's logits, then the sum of exponentials and
// the logits times their targets (Megatron-LM's vocabulary-parallel cross entropy, Shoeybi et al. 2019).
template <class T>
void head(const KernelCall& c) {
  const std::int64_t width = c.reads[0].last(1), tokens = c.reads[0].rows(1), held = c.reads[1].rows(1);
  const std::int64_t first = c.reads[1].first_row, vocabulary = c.reads[1].real_rows(held);
  const T *x = c.reads[0].as<T>(), *w = c.reads[1].as<T>();
  const auto* labels = c.reads[2].as<std::int32_t>();
  T *dx = c.writes[1].as<T>(), *dw = c.writes[2].as<T>();
  const T scale = static_cast<T>(c.loss_scale);
  const HeadRule& rule = static_cast<const Head&>(c.op).rule;
  const std::int64_t all = c.reads[1].all_rows == 0 ? held : c.reads[1].all_rows;
  const std::int64_t chunk = Head::chunk(tokens, held);
  T* logits = static_cast<T*>(c.scratch);
  auto* losses = reinterpret_cast<double*>(static_cast<char*>(c.scratch) +
                                           aligned({chunk * held * static_cast<std::int64_t>(sizeof(T))}).value);
  const DType dtype = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  std::vector<T> most(static_cast<std::size_t>(chunk)), sums(static_cast<std::size_t>(2 * chunk));
  double total = 0;
  for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
    const std::int64_t rows = std::min(chunk, tokens - begin);
    if (vocabulary > 0) product_forward<T>(c.team, rows, vocabulary, width, x + begin * width, w, nullptr, logits);
    const auto each_row = [&](const auto& body) {
      c.team.split(rows, 1, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t r = from; r < to; ++r)
          body(static_cast<std::size_t>(r), LogitRow<T>{logits + r * vocabulary, vocabulary, all, rule},
               labels[begin + r]);
      });
    };
    const auto start = [&](std::size_t r, const LogitRow<T>& row) {
      row.apply_cap();
      most[r] = row.greatest();
    };
    const auto sum = [&](std::size_t r, const LogitRow<T>& row, std::int32_t label) {
      sums[2 * r + 1] = label >= 0 ? row.wanted(label - first) : T{0};
      sums[2 * r] = row.exponentials(most[r]);
    };
    const auto finish = [&](std::size_t r, const LogitRow<T>& row, std::int32_t label) {
      losses[r] = 0;
      if (label < 0) {  // ignored: no loss, no gradient
        std::fill(row.row, row.row + vocabulary, T{0});
        return;
      }
      const double lse = std::log(static_cast<double>(sums[2 * r])) + static_cast<double>(most[r]);
      row.gradient(most[r], sums[2 * r], static_cast<T>(lse), scale, label - first);
      losses[r] = lse + rule.z_loss * lse * lse - static_cast<double>(sums[2 * r + 1]);
    };
    if (c.across) {
      each_row([&](std::size_t r, const LogitRow<T>& row, std::int32_t) { start(r, row); });
      c.across->greatest(most.data(), rows, dtype);
      each_row(sum);
      c.across->sum(sums.data(), 2 * rows, dtype);
      each_row(finish);
    } else {
      each_row([&](std::size_t r, const LogitRow<T>& row, std::int32_t label) {
        if (label >= 0) start(r, row), sum(r, row, label);
        finish(r, row, label);
      });
    }
    for (std::int64_t r = 0; r < rows; ++r) total += losses[r];
    const bool adds = c.add[2] || begin > 0;
    if (vocabulary > 0) {
      product_input<T>(c.team, rows, vocabulary, width, logits, w, c.add[1], dx + begin * width);
      product_weight<T>(c.team, rows, vocabulary, width, logits, x + begin * width, adds, dw);
    } else if (!c.add[1]) {
      std::fill(dx + begin * width, dx + (begin + rows) * width, T{0});
    }
    if (!adds) std::fill(dw + vocabulary * width, dw + held * width, T{0});  // padding
  }
  auto* loss = c.writes[0].as<double>();
  *loss = c.add[0] ? *loss + total : total;
}

}  // namespace

void add_head_kernels(KernelTable& table) { table.add("head", Pass::kI, head<float>, head<double>); }

}  // namespace sextant
