#include "sextant/ops/rope.h"

#include <cmath>

#include "sextant/runtime/kernels/kernel.h"

namespace sextant {
namespace {

// Turns each pair (i, i + R/2) of every head by its position's angle; backwards for the gradient.
template <class T, bool backward>
void rope(const KernelCall& c) {
  const View& in = c.reads[backward ? 1 : 0];
  const auto* positions = c.reads[backward ? 0 : 1].as<std::int32_t>();
  const T* x = in.as<T>();
  T* y = c.writes[0].as<T>();
  const std::int64_t width = in.last(1), heads = in.last(2) / width, tokens = in.rows(2);
  const std::vector<double> frequency = static_cast<const Rope&>(c.op).frequencies(width);
  const auto half = static_cast<std::int64_t>(frequency.size());
  const bool add = backward && c.add[0];
  c.team.split(tokens, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> cosine(static_cast<std::size_t>(half)), sine(static_cast<std::size_t>(half));
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::size_t i = 0; i < cosine.size(); ++i) {
        const double angle = positions[t] * frequency[i];
        cosine[i] = static_cast<T>(std::cos(angle));
        sine[i] = static_cast<T>(backward ? -std::sin(angle) : std::sin(angle));
      }
      const T *co = cosine.data(), *si = sine.data();
      for (std::int64_t h = 0; h < heads; ++h) {
        const T *a = x + (t * heads + h) * width, *b = a + half;
        T *u = y + (t * heads + h) * width, *v = u + half;
#pragma omp simd
        for (std::int64_t i = 0; i < half; ++i) {
          const T first = a[i] * co[i] - b[i] * si[i], second = b[i] * co[i] + a[i] * si[i];
          u[i] = add ? u[i] + first : first;
          v[i] = add ? v[i] + second : second;
        }
        const T* rest = x + (t * heads + h) * width;  // what is not turned
        T* same = y + (t * heads + h) * width;
#pragma omp simd
        for (std::int64_t i = 2 * half; i < width; ++i) same[i] = add ? same[i] + rest[i] : rest[i];
      }
    }
  });
}

}  // namespace

void add_rope_kernels(KernelTable& table) {
  table.add("rope", Pass::kF, rope<float, false>, rope<double, false>);
  table.add("rope", Pass::kI, rope<float, true>, rope<double, true>);
}

}  // namespace sextant
