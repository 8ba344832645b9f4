#include "sextant/ops/rope.h"

#include <cmath>
#include <numbers>

#include "sextant/base/errors.h"

namespace sextant {

std::variant<Row, Refusal> Rope::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement x = in[0].on(axis);
  if (x.kind == Kind::kShard && x.dim == in[0].dims.back().dim)
    return Refusal{"rope turns pairs within a head, which must be whole"};
  return element_wise_row(in, axis);
}

Work Rope::work(Pass, std::span<const TensorSpec> local) const {
  const double flops = 3.0 * static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return {flops, flops, x, x};
}

std::vector<double> Rope::frequencies(std::int64_t head_width) const {
  check(scaling.factor == 1 || scaling.kind == RopeScaling::Kind::kLlama3, "no kernel turns by YaRN");
  const std::int64_t width = rotated > 0 ? rotated : head_width;
  std::vector<double> out;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    double f = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    if (scaling.factor != 1) {
      // Wavelengths beyond original/low are stretched whole, those below original/high not, between them smoothly.
      const double turns = scaling.original_length * f / (2 * std::numbers::pi);
      if (turns < scaling.low_frequency) {
        f /= scaling.factor;
      } else if (turns < scaling.high_frequency) {
        const double smooth = (turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency);
        f = (1 - smooth) * f / scaling.factor + smooth * f;
      }
    }
    out.push_back(f);
  }
  return out;
}

}  // namespace sextant
