#pragma once
// Where the visits of tokens lie among the rows of experts: for each expert in the order of the tokens, from its first
// row on. Dispatch and combine follow the same list, so it is made again rather than sent along.
#include <span>

#include "sextant/runtime/kernels/kernel.h"

namespace sextant {

class Routing {
 public:
  /// `experts`: which each visit is to, [tokens A] (i32). `scratch` holds a number for each visit and each expert.
  /// Throws InvalidInput if an expert is visited more often than it has rows.
  Routing(const View& experts, std::int64_t num_experts, std::int64_t rows, void* scratch);
  /// Row of a visit in [E X].
  std::int64_t row(std::int64_t visit) const { return rows_[visit]; }
  std::int64_t visits() const { return visits_; }

 private:
  std::int32_t* rows_;
  std::int64_t visits_;
};

}  // namespace sextant
