#pragma once
#include "sextant/runtime/kernels/math.h"

namespace sextant {

// GELU by tanh (Hendrycks and Gimpel 2016), and its slope.
inline constexpr double kRootTwoOverPi = 0.7978845608028654, kCubic = 0.044715;

template <class T>
T gelu_tanh(T x) {
  const T u = static_cast<T>(kRootTwoOverPi) * (x + static_cast<T>(kCubic) * x * x * x);
  return T{0.5} * x * (T{1} + fast_tanh(u));
}
template <class T>
T gelu_tanh_slope(T x) {
  const T u = static_cast<T>(kRootTwoOverPi) * (x + static_cast<T>(kCubic) * x * x * x), t = fast_tanh(u);
  return T{0.5} * (T{1} + t) +
         T{0.5} * x * (T{1} - t * t) * static_cast<T>(kRootTwoOverPi) * (T{1} + static_cast<T>(3 * kCubic) * x * x);
}

}  // namespace sextant
