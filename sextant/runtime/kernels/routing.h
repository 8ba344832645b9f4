#pragma once
// Where the visits of tokens lie among the rows of experts: for each expert in the order of the tokens, from its first
// row on. Dispatch and combine follow the same list, so it is made again rather than sent along.
#include <cstring>

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

/// Sums `visits` rows into each row of `out`, in the order of the visits; on top of what is there if `add`.
template <class T>
void sum_visits(Team& team, const Routing& routing, std::int64_t visits, std::int64_t width, const T* rows, bool add,
                T* out) {
  team.split(routing.visits() / visits, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      T* sum = out + t * width;
      if (!add) std::memset(sum, 0, static_cast<std::size_t>(width) * sizeof(T));
      for (std::int64_t a = 0; a < visits; ++a) {
        const T* row = rows + routing.row(t * visits + a) * width;
#pragma omp simd
        for (std::int64_t d = 0; d < width; ++d) sum[d] += row[d];
      }
    }
  });
}

}  // namespace sextant
