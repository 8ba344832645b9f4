#include "sextant/runtime/kernels/peak.h"

namespace sextant {

namespace {

// Vectors as wide as a register, and as many as hide the latency of two units and still leave registers for the
// factors.
#if defined(__AVX512F__)
constexpr int kBytes = 64, kVectors = 16;
#elif defined(__AVX__)
constexpr int kBytes = 32, kVectors = 12;
#else
constexpr int kBytes = 16, kVectors = 12;
#endif
typedef float Vector __attribute__((vector_size(kBytes)));

}  // namespace

const double kFlopsPerRound = 2.0 * kVectors * static_cast<double>(sizeof(Vector) / sizeof(float));

void multiply_add_rounds(std::int64_t rounds) {
  Vector a[kVectors];
  for (int i = 0; i < kVectors; ++i) a[i] = Vector{} + static_cast<float>(i);
  const Vector scale = Vector{} + 0.999F, shift = Vector{} + 0.001F;
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kVectors; ++i) a[i] = a[i] * scale + shift;
  Vector sum = a[0];
  for (int i = 1; i < kVectors; ++i) sum += a[i];
  volatile float sink = sum[0];
  static_cast<void>(sink);
}

}  // namespace sextant
