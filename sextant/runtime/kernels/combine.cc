#include "sextant/ops/combine.h"

#include <cstring>

#include "sextant/runtime/kernels/routing.h"

namespace sextant {
namespace {

// Reads: rows y[E X D], experts. Writes: the sum over each token's visits.
template <class T>
void combine_forward(const KernelCall& c) {
  const View &y = c.reads[0], &out = c.writes[0];
  const Routing routing(c.reads[1], y.size('E'), y.size('X'), c.scratch);
  sum_visits(c.team, routing, c.reads[1].size('A'), y.last(1), y.as<T>(), false, out.as<T>());
}

// Reads: experts, dout. Writes: dy; rows that nobody visits have none.
template <class T>
void combine_backward(const KernelCall& c) {
  const View &dout = c.reads[1], &dy = c.writes[0];
  const Routing routing(c.reads[0], dy.size('E'), dy.size('X'), c.scratch);
  const std::int64_t width = dy.last(1), visits = c.reads[0].size('A');
  if (!c.add[0]) std::memset(dy.data, 0, static_cast<std::size_t>(dy.elements()) * sizeof(T));
  c.team.split(routing.visits(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v) {
      T* row = dy.as<T>() + routing.row(v) * width;
      const T* from = dout.as<T>() + v / visits * width;
#pragma omp simd
      for (std::int64_t d = 0; d < width; ++d) row[d] += from[d];
    }
  });
}

}  // namespace

void add_combine_kernels(KernelTable& table) {
  table.add("combine", Pass::kF, combine_forward<float>, combine_forward<double>);
  table.add("combine", Pass::kI, combine_backward<float>, combine_backward<double>);
}

}  // namespace sextant
