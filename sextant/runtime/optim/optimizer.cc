#include "sextant/runtime/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sextant {

OptimizerConfig read_optimizer(const Value& run, const std::string& file) {
  Fields f(run.find("optimizer"), file, "[optimizer]");
  OptimizerConfig c;
  const std::string kind = f.one_of_or("kind", "adamw", {"sgd", "momentum", "adamw"});
  c.kind = kind == "sgd" ? OptimizerKind::kSgd : kind == "momentum" ? OptimizerKind::kMomentum : OptimizerKind::kAdamW;
  c.learning_rate = f.number_or("learning_rate", c.learning_rate, 0, 1e6);
  constexpr double kBelowOne = 0.999999;  // a decay of 1 would never take up a gradient, and divides by zero
  c.momentum = f.number_or("momentum", c.momentum, 0, kBelowOne);
  c.beta1 = f.number_or("beta1", c.beta1, 0, kBelowOne);
  c.beta2 = f.number_or("beta2", c.beta2, 0, kBelowOne);
  c.epsilon = f.number_or("epsilon", c.epsilon, 1e-30, 1) /* 0 / 0 where no gradient ever came */;
  c.weight_decay = f.number_or("weight_decay", c.kind == OptimizerKind::kAdamW ? 0.1 : 0, 0, 1e3);
  c.clip_norm = f.number_or("clip_norm", 1, 0, 1e30);
  const std::string schedule = f.one_of_or("schedule", "cosine", {"constant", "cosine", "linear", "wsd"});
  c.schedule = schedule == "constant" ? LrSchedule::kConstant
               : schedule == "cosine" ? LrSchedule::kCosine
               : schedule == "linear" ? LrSchedule::kLinear
                                      : LrSchedule::kWsd;
  c.warmup_steps = f.integer_or("warmup_steps", 0, 0);
  c.final_fraction = f.number_or("final_fraction", 0.1, 0, 1);
  c.decay_fraction = f.number_or("decay_fraction", 0.2, 0, 1);
  f.finish();
  return c;
}

double learning_rate(const OptimizerConfig& c, std::int64_t step, std::int64_t total) {
  if (step < c.warmup_steps)
    return c.learning_rate * static_cast<double>(step + 1) / static_cast<double>(c.warmup_steps);
  const double all = static_cast<double>(std::max<std::int64_t>(1, total - c.warmup_steps)),
               at = static_cast<double>(step - c.warmup_steps);
  double done = std::min(1.0, at / all);
  switch (c.schedule) {
    case LrSchedule::kConstant:
      return c.learning_rate;
    case LrSchedule::kCosine:
      return c.learning_rate *
             (c.final_fraction + (1 - c.final_fraction) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
    case LrSchedule::kLinear:
      break;
    case LrSchedule::kWsd:
      done = c.decay_fraction > 0 ? std::max(0.0, (done - (1 - c.decay_fraction)) / c.decay_fraction) : 0;
      break;
  }
  return c.learning_rate * (1 - (1 - c.final_fraction) * done);
}

int state_values(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW ? 2 : kind == OptimizerKind::kMomentum ? 1 : 0;
}

template <class T>
void optimizer_step(Team& team, const OptimizerConfig& c, double rate, std::int64_t updates, double gradient_scale,
                    const std::vector<Range>& ranges, T* parameters, const T* gradients, T* m, T* v) {
  const T scale = static_cast<T>(gradient_scale);
  const T beta1 = static_cast<T>(c.beta1), beta2 = static_cast<T>(c.beta2), mu = static_cast<T>(c.momentum),
          lr = static_cast<T>(rate);
  // m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps), with the corrections moved into the step and eps.
  const double correct1 = 1 - std::pow(c.beta1, static_cast<double>(updates)),
               correct2 = std::sqrt(1 - std::pow(c.beta2, static_cast<double>(updates)));
  const T adam_rate = static_cast<T>(rate * correct2 / correct1), eps = static_cast<T>(c.epsilon * correct2);
  for (const Range& range : ranges) {
    const T keep = static_cast<T>(range.decays ? 1 - rate * c.weight_decay : 1);
    team.split(range.end - range.begin, 4096, [&](std::int64_t from, std::int64_t to) {
      T* p = parameters + range.begin;
      const T* g = gradients + range.begin;
      if (c.kind == OptimizerKind::kAdamW) {
        T *first = m + range.begin, *second = v + range.begin;
#pragma omp simd
        for (std::int64_t i = from; i < to; ++i) {
          const T grad = g[i] * scale;
          first[i] = beta1 * first[i] + (1 - beta1) * grad;
          second[i] = beta2 * second[i] + (1 - beta2) * grad * grad;
          p[i] = p[i] * keep - adam_rate * first[i] / (std::sqrt(second[i]) + eps);
        }
      } else if (c.kind == OptimizerKind::kMomentum) {
        T* first = m + range.begin;
#pragma omp simd
        for (std::int64_t i = from; i < to; ++i) {
          first[i] = mu * first[i] + g[i] * scale;
          p[i] = p[i] * keep - lr * first[i];
        }
      } else {
#pragma omp simd
        for (std::int64_t i = from; i < to; ++i) p[i] = p[i] * keep - lr * scale * g[i];
      }
    });
  }
}

template <class T>
double sum_of_squares(Team& team, const std::vector<Range>& ranges, const T* values) {
  // Blocks of fixed length are summed each by one thread, then in order: the bits do not depend on the team.
  constexpr std::int64_t kBlock = 16384;
  double total = 0;
  std::vector<double> sums;
  for (const Range& range : ranges) {
    const std::int64_t count = range.end - range.begin, blocks = (count + kBlock - 1) / kBlock;
    sums.assign(static_cast<std::size_t>(blocks), 0);
    const T* x = values + range.begin;
    team.split(blocks, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) {
        // Independent lanes hide the latency of the additions.
        constexpr int kLanes = 32;
        double lanes[kLanes] = {};
        const std::int64_t begin = b * kBlock, end = std::min(count, begin + kBlock),
                           whole = begin + (end - begin) / kLanes * kLanes;
        for (std::int64_t i = begin; i < whole; i += kLanes)
          for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(x[i + l]) * static_cast<double>(x[i + l]);
        for (std::int64_t i = whole; i < end; ++i) lanes[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        double sum = 0;
        for (const double lane : lanes) sum += lane;
        sums[static_cast<std::size_t>(b)] = sum;
      }
    });
    for (const double sum : sums) total += sum;
  }
  return total;
}

template void optimizer_step<float>(Team&, const OptimizerConfig&, double, std::int64_t, double,
                                    const std::vector<Range>&, float*, const float*, float*, float*);
template void optimizer_step<double>(Team&, const OptimizerConfig&, double, std::int64_t, double,
                                     const std::vector<Range>&, double*, const double*, double*, double*);
template double sum_of_squares<float>(Team&, const std::vector<Range>&, const float*);
template double sum_of_squares<double>(Team&, const std::vector<Range>&, const double*);

}  // namespace sextant
