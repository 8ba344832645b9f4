#pragma once
#include "sextant/ops/op.h"

namespace sextant {

enum class NormKernel : std::uint8_t { kOne, kSeveral };
enum class NormKind : std::uint8_t { kLayer, kRms };

/// Layer norm (Ba et al. 2016; inputs x, w, perhaps b; outputs y, mean, 1/std) or RMS norm (Zhang and Sennrich 2019;
/// inputs x, w; outputs y, 1/rms; with `one_more` it scales by 1 + w, as Gemma stores it). The dims of w are normalised
/// over; they stand last in x. [B S D] with w[D], [B S H K] with w[K] (Qwen3's q/k norm) or w[H K] (OLMo-2's).
/// `kernel` kSeveral is how frameworks do it without a kernel of its own, op by op in float32, with x and the
/// normalised x kept in it: priced only.
class Norm final : public Op {
 public:
  Norm(NormKind norm_kind, double eps, bool adds_one = false, NormKernel kernels = NormKernel::kOne)
      : norm(norm_kind), epsilon(eps), one_more(adds_one), kernel(kernels) {}
  std::string_view kind() const override { return norm == NormKind::kLayer ? "layernorm" : "rmsnorm"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass) const override;
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  const NormKind norm;
  const double epsilon;
  const bool one_more;
  const NormKernel kernel;
};

}  // namespace sextant
