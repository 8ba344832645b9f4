#include "sextant/ops/combine.h"

#include "sextant/base/errors.h"
#include "sextant/ops/dispatch.h"

namespace sextant {

std::vector<TensorSpec> Combine::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 && in[0].has('X') && in[1].has('A'), "combine takes y[E X D] and experts[B S A]");
  TensorSpec out{.dtype = in[0].dtype};
  for (const Extent& e : in[1].dims)
    if (e.dim != 'A') out.dims.push_back(e);
  out.dims.push_back(in[0].dims.back());
  return {out};
}

std::variant<Row, Refusal> Combine::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  if (!has(Grid::kDense, axis)) return Row{{shard('X'), replicate()}, {replicate()}};
  const Placement tokens = one_rank_each(in[1], axis);
  return Row{{shard('X'), tokens}, {tokens}};
}

Bytes Combine::scratch(Pass, std::span<const TensorSpec> local, int) const {
  return routing_bytes(local[1], local[0].size_of_dim('E'));
}

Work Combine::work(Pass pass, std::span<const TensorSpec> local) const {
  const Bytes y = total_bytes(local.subspan(0, 1));
  const Bytes out{y.value / local[1].size_of_dim('A')};
  const double adds = pass == Pass::kF ? static_cast<double>(local[0].elements()) : 0;
  return pass == Pass::kF ? Work{adds, adds, y, out} : Work{0, 0, out, y};
}

}  // namespace sextant
