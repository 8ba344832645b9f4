#pragma once
// Elementary functions that loops over float can be vectorised with; float64 takes the library's.
#include <bit>
#include <cmath>
#include <cstdint>

namespace sextant {

/// e^x. float: within 2 units in the last place for |x| < 87, 0 below, 3e38 above, NaN stays NaN.
inline float fast_exp(float x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial to degree 7.
  const float clamped = x < -87.3F ? -87.3F : x > 88.7F ? 88.7F : x;
  const float n = std::nearbyintf(clamped * 1.44269504F);
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9841270e-4F;
  p = p * r + 1.3888889e-3F;
  p = p * r + 8.3333333e-3F;
  p = p * r + 4.1666668e-2F;
  p = p * r + 1.6666667e-1F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // 2^n in two factors, since n reaches 128.
  const auto whole = static_cast<std::int32_t>(n);
  const std::int32_t half = whole >> 1;
  const float scaled = p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((whole - half + 127) << 23);
  return x < -87.3F ? 0.0F : x != x ? x : scaled;
}
inline double fast_exp(double x) { return std::exp(x); }

template <class T>
inline T fast_tanh(T x) {
  const T e = fast_exp(T{2} * x);
  return x > T{15} ? T{1} : x < T{-15} ? T{-1} : (e - T{1}) / (e + T{1});
}
inline double fast_tanh(double x) { return std::tanh(x); }

template <class T>
inline T logistic(T x) {
  return T{1} / (T{1} + fast_exp(-x));
}

}  // namespace sextant
