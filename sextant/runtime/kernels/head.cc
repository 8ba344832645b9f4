#include "sextant/ops/head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sextant/base/slices.h"
#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

// Reads: x, w, labels. Writes: loss (f64), dx, dw, -. By chunks of tokens: logits, softmax and loss in place, products.
template <class T>
void head(const KernelCall& c) {
  const std::int64_t width = c.reads[0].last(1), tokens = c.reads[0].rows(1), vocabulary = c.reads[1].rows(1);
  const T *x = c.reads[0].as<T>(), *w = c.reads[1].as<T>();
  const auto* labels = c.reads[2].as<std::int32_t>();
  T *dx = c.writes[1].as<T>(), *dw = c.writes[2].as<T>();
  const T scale = static_cast<T>(c.loss_scale), cap = static_cast<T>(static_cast<const Head&>(c.op).softcap);
  const std::int64_t chunk = Head::chunk(tokens, vocabulary);
  T* logits = static_cast<T*>(c.scratch);
  auto* losses = reinterpret_cast<double*>(static_cast<char*>(c.scratch) +
                                           aligned({chunk * vocabulary * static_cast<std::int64_t>(sizeof(T))}).value);
  double total = 0;
  for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
    const std::int64_t rows = std::min(chunk, tokens - begin);
    product_forward<T>(c.team, rows, vocabulary, width, x + begin * width, w, nullptr, logits);
    c.team.split(rows, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t r = from; r < to; ++r) {
        T* row = logits + r * vocabulary;
        const std::int32_t label = labels[begin + r];
        if (label < 0) {  // ignored: no loss, no gradient
          std::fill(row, row + vocabulary, T{0});
          losses[r] = 0;
          continue;
        }
        if (cap > 0) {
#pragma omp simd
          for (std::int64_t j = 0; j < vocabulary; ++j) row[j] = cap * fast_tanh(row[j] / cap);
        }
        T most = -std::numeric_limits<T>::infinity(), sum = 0;
#pragma omp simd reduction(max : most)
        for (std::int64_t j = 0; j < vocabulary; ++j) most = std::max(most, row[j]);
        const T target = row[label];
        if (cap > 0) {
#pragma omp simd reduction(+ : sum)
          for (std::int64_t j = 0; j < vocabulary; ++j) sum += fast_exp(row[j] - most);
          // Times the slope of the cap, 1 - (capped / cap)^2.
          const T factor = scale / sum;
#pragma omp simd
          for (std::int64_t j = 0; j < vocabulary; ++j)
            row[j] = factor * fast_exp(row[j] - most) * (1 - (row[j] / cap) * (row[j] / cap));
          row[label] -= scale * (1 - (target / cap) * (target / cap));
        } else {
#pragma omp simd reduction(+ : sum)
          for (std::int64_t j = 0; j < vocabulary; ++j) sum += row[j] = fast_exp(row[j] - most);
          const T factor = scale / sum;
#pragma omp simd
          for (std::int64_t j = 0; j < vocabulary; ++j) row[j] *= factor;
          row[label] -= scale;
        }
        losses[r] = std::log(static_cast<double>(sum)) + static_cast<double>(most) - static_cast<double>(target);
      }
    });
    for (std::int64_t r = 0; r < rows; ++r) total += losses[r];
    product_input<T>(c.team, rows, vocabulary, width, logits, w, c.add[1], dx + begin * width);
    product_weight<T>(c.team, rows, vocabulary, width, logits, x + begin * width, c.add[2] || begin > 0, dw);
  }
  auto* loss = c.writes[0].as<double>();
  *loss = c.add[0] ? *loss + total : total;
}

}  // namespace

void add_head_kernels(KernelTable& table) { table.add("head", Pass::kI, head<float>, head<double>); }

}  // namespace sextant
