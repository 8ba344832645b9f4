#include "sextant/runtime/kernels/peak.h"

namespace sextant {

void multiply_add_rounds(std::int64_t rounds) {
  // 16 independent vectors of 16 floats hide the latency of the unit on every core up to 16 operations in flight.
  typedef float Vector __attribute__((vector_size(64)));
  Vector a[16];
  for (int i = 0; i < 16; ++i) a[i] = Vector{} + static_cast<float>(i);
  const Vector scale = Vector{} + 0.999F, shift = Vector{} + 0.001F;
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < 16; ++i) a[i] = a[i] * scale + shift;
  Vector sum = a[0];
  for (int i = 1; i < 16; ++i) sum += a[i];
  volatile float sink = sum[0];
  static_cast<void>(sink);
}

}  // namespace sextant
