#include "sextant/ops/dispatch.h"

#include <cmath>

#include "sextant/base/errors.h"

namespace sextant {

Placement one_rank_each(const TensorSpec& tokens, Axis axis) {
  const Placement p = tokens.on(axis);
  return p.kind == Kind::kShard && (p.dim == 'B' || p.dim == 'S') ? p : shard('S');
}

std::vector<TensorSpec> Dispatch::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 && in[1].has('A'), "dispatch takes x and experts[B S A]");
  const double visits = static_cast<double>(in[1].elements()) * imbalance;
  const auto rows = static_cast<std::int64_t>(std::ceil(visits / static_cast<double>(experts)));
  TensorSpec y{.dims = {{'E', experts}, {'X', rows, true, imbalance}}, .dtype = in[0].dtype, .grid = Grid::kExpert};
  for (const Extent& e : in[0].dims)
    if (!in[1].has(e.dim)) y.dims.push_back(e);
  return {y};
}

std::variant<Row, Refusal> Dispatch::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement R = replicate();
  if (!has(Grid::kDense, axis)) return Row{{R, R}, {shard('X')}};
  const Placement tokens = one_rank_each(in[0], axis);
  return Row{{tokens, tokens}, {shard('X')}};
}

Bytes routing_bytes(const TensorSpec& visited, std::int64_t experts) {
  return {(visited.elements() + experts) * size_of(DType::kI32)};
}

Bytes Dispatch::scratch(Pass, std::span<const TensorSpec> local, int) const { return routing_bytes(local[1], experts); }

Work Dispatch::work(Pass pass, std::span<const TensorSpec> local) const {
  const Bytes x = total_bytes(local.subspan(0, 1));
  const std::int64_t visits = local[0].has('A') ? 1 : local[1].size_of_dim('A');
  const Bytes y = x * visits;
  const double adds = static_cast<double>(local[0].elements() * visits);
  return pass == Pass::kF ? Work{0, 0, x, y} : Work{adds, adds, y, x};
}

}  // namespace sextant
