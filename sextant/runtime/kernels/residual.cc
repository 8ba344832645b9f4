#include "sextant/ops/residual.h"

#include "sextant/runtime/kernels/bias.h"
#include "sextant/runtime/kernels/dropout.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {
namespace {

// Reads: y, r, (biases), (tokens). Writes: r + dropout(y + bias).
template <class T>
void residual_forward(const KernelCall& c) {
  const auto& op = static_cast<const Residual&>(c.op);
  const T *y = c.reads[0].as<T>(), *r = c.reads[1].as<T>();
  const std::vector<T> sum = sum_of_biases<T>(c, op);
  const T* bias = sum.empty() ? nullptr : sum.data();
  const auto* tokens =
      op.rule.probability > 0 ? c.reads[static_cast<std::size_t>(2 + op.biases)].as<std::int64_t>() : nullptr;
  T* out = c.writes[0].as<T>();
  const std::int64_t width = c.reads[0].last(1);
  c.team.split(c.reads[0].rows(1), 1, [&, stream = op.rule.stream(c.seed)](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * width;
      if (bias)
        each_channel<T>(op.rule, stream, tokens, row, width,
                        [=](std::int64_t d, T factor) { out[at + d] = r[at + d] + factor * (y[at + d] + bias[d]); });
      else
        each_channel<T>(op.rule, stream, tokens, row, width,
                        [=](std::int64_t d, T factor) { out[at + d] = r[at + d] + factor * y[at + d]; });
    }
  });
}

// Reads: (tokens), dout. Writes: dy, dr, (dbias of each), (-).
template <class T>
void residual_backward(const KernelCall& c) {
  const auto& op = static_cast<const Residual&>(c.op);
  const bool drops = op.rule.probability > 0;
  const auto* tokens = drops ? c.reads[0].as<std::int64_t>() : nullptr;
  const View& in = c.reads[drops ? 1 : 0];
  const T* g = in.as<T>();
  T *dy = c.writes[0].as<T>(), *dr = c.writes[1].as<T>();
  const std::int64_t width = in.last(1), rows = in.rows(1);
  const bool add_y = c.add[0], add_r = c.add[1];
  const RandomStream stream = op.rule.stream(c.seed);
  c.team.split(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * width;
      each_channel<T>(op.rule, stream, tokens, row, width, [=](std::int64_t d, T factor) {
        dy[at + d] = factor * g[at + d] + (add_y ? dy[at + d] : T{0});
        dr[at + d] = g[at + d] + (add_r ? dr[at + d] : T{0});
      });
    }
  });
  // The same sums for every bias, made once.
  if (op.biases == 0) return;
  std::vector<T> sums(static_cast<std::size_t>(width));
  T* db = sums.data();
  c.team.split(width, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* from = g + row * width;
      if (!drops) {
#pragma omp simd
        for (std::int64_t d = begin; d < end; ++d) db[d] += from[d];
      } else {
        // Channels of this range only: the mask is drawn by channel, so a range draws its own part.
        const auto token = static_cast<std::uint64_t>(tokens[row]);
        const T scale = static_cast<T>(op.rule.scale());
        for (std::int64_t d = begin; d < end; ++d)
          if (stream.bits(token, static_cast<std::uint64_t>(d)) >= op.rule.threshold()) db[d] += scale * from[d];
      }
    }
    for (std::size_t b = 0; b < static_cast<std::size_t>(op.biases); ++b) {
      T* to = c.writes[2 + b].as<T>();
      for (std::int64_t d = begin; d < end; ++d) to[d] = c.add[2 + b] ? to[d] + db[d] : db[d];
    }
  });
}

}  // namespace

void add_residual_kernels(KernelTable& table) {
  table.add("residual", Pass::kF, residual_forward<float>, residual_forward<double>);
  table.add("residual", Pass::kI, residual_backward<float>, residual_backward<double>);
}

}  // namespace sextant
