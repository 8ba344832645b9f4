#include "sextant/runtime/kernels/routing.h"

#include <limits>

#include "sextant/base/errors.h"

namespace sextant {

Routing::Routing(const View& experts, std::int64_t num_experts, std::int64_t rows, void* scratch)
    : rows_(static_cast<std::int32_t*>(scratch)), visits_(experts.elements()) {
  check(num_experts * rows <= std::numeric_limits<std::int32_t>::max(), "rows are counted in 32 bits");
  std::int32_t* const taken = rows_ + visits_;
  std::fill(taken, taken + num_experts, 0);
  const auto* chosen = experts.as<std::int32_t>();
  for (std::int64_t v = 0; v < visits_; ++v) {
    const std::int32_t expert = chosen[v];
    if (taken[expert] == rows)
      throw InvalidInput(str("more than ", rows, " tokens of a rank visit expert ", expert,
                             ": no token is dropped; raise model.expert_imbalance, or leave it out for room enough"));
    rows_[v] = static_cast<std::int32_t>(expert * rows + taken[expert]++);
  }
}

}  // namespace sextant
