#include "sextant/ops/dispatch.h"

#include <cstring>

#include "sextant/runtime/kernels/routing.h"

namespace sextant {
namespace {

// Reads: x, of tokens or of their visits, and experts. Writes: rows y[E X ...]; those that nobody visits are zero, and
// stay so in every op behind.
template <class T>
void dispatch_forward(const KernelCall& c) {
  const View &x = c.reads[0], &y = c.writes[0];
  const Routing routing(c.reads[1], y.size('E'), y.size('X'), c.scratch);
  const std::int64_t width = y.last(y.spec->dims.size() - 2), visits = c.reads[1].size('A');
  const bool of_visits = x.spec->has('A');
  std::memset(y.data, 0, static_cast<std::size_t>(y.elements()) * sizeof(T));
  c.team.split(routing.visits(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v)
      std::memcpy(y.as<T>() + routing.row(v) * width, x.as<T>() + (of_visits ? v : v / visits) * width,
                  static_cast<std::size_t>(width) * sizeof(T));
  });
}

// Reads: experts, dy. Writes: dx, the sum over a token's visits.
template <class T>
void dispatch_backward(const KernelCall& c) {
  const View &dy = c.reads[1], &dx = c.writes[0];
  const Routing routing(c.reads[0], dy.size('E'), dy.size('X'), c.scratch);
  const std::int64_t visits = dx.spec->has('A') ? 1 : c.reads[0].size('A');
  sum_visits(c.team, routing, visits, dy.last(dy.spec->dims.size() - 2), dy.as<T>(), c.add[0], dx.as<T>());
}

}  // namespace

void add_dispatch_kernels(KernelTable& table) {
  table.add("dispatch", Pass::kF, dispatch_forward<float>, dispatch_forward<double>);
  table.add("dispatch", Pass::kI, dispatch_backward<float>, dispatch_backward<double>);
}

}  // namespace sextant
