#pragma once
#include "sextant/ops/dropout.h"

namespace sextant {

// Calls f(channel, factor) for each channel of a token: 0 if dropped, 1 / (1 - p) if kept, 1 without dropout.
template <class T, class F>
void each_channel(const DropoutRule& rule, const RandomStream& stream, const std::int64_t* tokens, std::int64_t row,
                  std::int64_t width, const F& f) {
  if (rule.probability == 0) {
#pragma omp simd
    for (std::int64_t d = 0; d < width; ++d) f(d, T{1});
    return;
  }
  const std::uint32_t threshold = rule.threshold();
  const T scale = static_cast<T>(rule.scale());
  const auto token = static_cast<std::uint64_t>(tokens[row]);
  for (std::int64_t d = 0; d < width; d += 4) {
    const auto bits = stream.block(token, static_cast<std::uint64_t>(d / 4));
    for (std::int64_t i = 0; i < 4 && d + i < width; ++i)
      f(d + i, bits[static_cast<std::size_t>(i)] < threshold ? T{0} : scale);
  }
}

}  // namespace sextant
