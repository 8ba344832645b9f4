#include "sextant/ops/fused.h"

#include <cmath>

#include "sextant/ops/norm.h"
#include "sextant/ops/residual.h"
#include "sextant/runtime/kernels/bias.h"
#include "sextant/runtime/kernels/dropout.h"
#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/kernels/norm.h"

namespace sextant {
namespace {

// Reads: y, r, (biases), (tokens), w, (b). Writes: r + dropout(y + bias), its norm, (mean), 1/std. A row is normalised
// while it is in cache.
template <class T, bool layer>
void residual_norm(const KernelCall& c) {
  const auto& fused = static_cast<const Fused&>(c.op);
  const auto& residual = static_cast<const Residual&>(*fused.first);
  const auto& norm = static_cast<const Norm&>(*fused.second);
  const auto own = static_cast<std::size_t>(fused.num_first_inputs);
  const T *y = c.reads[0].as<T>(), *r = c.reads[1].as<T>();
  const std::vector<T> biases = sum_of_biases<T>(c, residual);
  const T* bias = biases.empty() ? nullptr : biases.data();
  const auto* tokens = residual.rule.probability > 0
                           ? c.reads[static_cast<std::size_t>(2 + residual.biases)].as<std::int64_t>()
                           : nullptr;
  T* sum = c.writes[0].as<T>();
  const NormRows<T, layer> rows{c.reads[0].last(1),
                                static_cast<T>(norm.epsilon),
                                norm.one_more ? T{1} : T{0},
                                c.reads[own].as<T>(),
                                c.reads.size() > own + 1 ? c.reads[own + 1].as<T>() : nullptr,
                                c.writes[1].as<T>(),
                                layer ? c.writes[2].as<T>() : nullptr,
                                c.writes[layer ? 3 : 2].as<T>()};
  const std::int64_t n = rows.n;
  c.team.split(c.reads[0].rows(1), 1, [&, stream = residual.rule.stream(c.seed)](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * n;
      if (bias)
        each_channel<T>(residual.rule, stream, tokens, row, n,
                        [=](std::int64_t d, T factor) { sum[at + d] = r[at + d] + factor * (y[at + d] + bias[d]); });
      else
        each_channel<T>(residual.rule, stream, tokens, row, n,
                        [=](std::int64_t d, T factor) { sum[at + d] = r[at + d] + factor * y[at + d]; });
      rows.run(row, sum + at);
    }
  });
}

}  // namespace

void add_fused_kernels(KernelTable& table) {
  table.add("residual+layernorm", Pass::kF, residual_norm<float, true>, residual_norm<double, true>);
  table.add("residual+rmsnorm", Pass::kF, residual_norm<float, false>, residual_norm<double, false>);
}

}  // namespace sextant
