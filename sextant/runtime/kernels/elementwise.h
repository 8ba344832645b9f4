#pragma once
// Loops over all elements of a tensor, for kernels that treat every element alike.
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {

// Runs f(i) over all elements; results are independent of the split.
template <class F>
void each(const KernelCall& c, std::int64_t count, const F& f) {
  c.team.split(count, 1024, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

// d[i] = f(i), or d[i] += f(i): two loops, since a choice inside one keeps it from being vectorised.
template <class T, class F>
void each_gradient(const KernelCall& c, std::size_t write, const F& f) {
  T* d = c.writes[write].as<T>();
  const std::int64_t count = c.writes[write].elements();
  if (c.add[write])
    each(c, count, [=](std::int64_t i) { d[i] += f(i); });
  else
    each(c, count, [=](std::int64_t i) { d[i] = f(i); });
}

}  // namespace sextant
