#pragma once
// Proves a plan: that it computes what one rank computes, and moves and holds what its program promised.
#include "sextant/runtime/train/proof.h"

namespace sextant {

struct Verdict {
  double loss_error = 0, norm_error = 0;  ///< greatest relative difference over the steps
  Worst gradient, weight;                 ///< of all tensors
  bool ranks_agree = false, bytes_match = false, peak_matches = false;
  int ranks = 0;
  std::string scaled;  ///< what was made smaller, in words; "" for nothing
  double worst_error() const;
  std::string worst_tensor() const;
  bool holds(double tolerance) const;
};

/// Sums of float64 in another order: about 1e-12 over a few layers.
inline constexpr double kProofTolerance = 1e-10;

enum class ProofModel : std::uint8_t { kSmall, kWhole };

/// Runs three SGD steps of a plan on threads, in float64, with dropout if the model has it and labels masked unevenly,
/// and the same on one rank; compares losses, norms, every gradient, the weights behind it, bytes and peaks. `kSmall`
/// takes a model of the same family and features with small widths, and few data-parallel ranks. Throws InvalidInput
/// if the plan is not valid, or the model is not trained.
Verdict verify(const ModelConfig& model, const Plan& plan, const Workload& workload, ProofModel which);

}  // namespace sextant
