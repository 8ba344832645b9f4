#pragma once
#include <vector>

#include "sextant/ops/residual.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {

/// The biases of a residual step added up, [D]; empty if it has none.
template <class T>
std::vector<T> sum_of_biases(const KernelCall& c, const Residual& op) {
  std::vector<T> sum;
  for (int i = 0; i < op.biases; ++i) {
    const View& bias = c.reads[static_cast<std::size_t>(2 + i)];
    sum.resize(static_cast<std::size_t>(bias.elements()));
    for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += bias.as<T>()[d];
  }
  return sum;
}

}  // namespace sextant
