#include "sextant/ops/grouped_linear.h"

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> GroupedLinear::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 || in.size() == 3, "a grouped linear takes x, w and perhaps b");
  check(in[0].dims[0].dim == 'E' && in[1].dims[0].dim == 'E', "the experts are the first dim of x and w");
  TensorSpec y{.dims = {in[0].dims[0]}, .dtype = in[0].dtype, .grid = in[0].grid};
  for (const Extent& e : in[0].dims)
    if (!in[1].has(e.dim)) y.dims.push_back(e);
  for (const Extent& e : in[1].dims)
    if (!in[0].has(e.dim)) y.dims.push_back(e);
  return {y};
}

std::variant<Row, Refusal> GroupedLinear::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement x = in[0].on(axis), w = in[1].on(axis), R = replicate();
  const bool has_bias = in.size() == 3;
  Row row;
  if (w.kind == Kind::kShard && w.dim == 'E') {
    row = {{w, w}, {w}};
    if (has_bias) row.in.push_back(w);
  } else if (w.kind == Kind::kShard && in[0].has(w.dim)) {
    if (has_bias) return Refusal{"a product over a split dim yields a sum and cannot carry a bias; use expert_bias"};
    row = {{shard(w.dim), w}, {partial()}};
  } else if (w.kind == Kind::kShard) {
    row = {{copied(), w}, {w}};
    if (has_bias) row.in.push_back(w);
  } else if (x.kind == Kind::kShard && !in[1].has(x.dim)) {
    row = {{x, copied()}, {x}};
    if (has_bias) row.in.push_back(copied());
  } else {
    row = {{R, R}, {R}};
    if (has_bias) row.in.push_back(R);
  }
  return row;
}

Work GroupedLinear::work(Pass pass, std::span<const TensorSpec> local) const {
  double out = 1, in = 1;
  for (const Extent& e : local[1].dims)
    if (e.dim != 'E') (local[0].has(e.dim) ? in : out) *= static_cast<double>(e.size);
  const double rows = static_cast<double>(local[0].elements()) / in, flops = 2 * rows * in * out;
  const Bytes x = total_bytes(local.subspan(0, 1)), w = total_bytes(local.subspan(1, 1)),
              y{static_cast<std::int64_t>(rows * out) * size_of(local[0].dtype)};
  if (pass == Pass::kF) return {flops, flops, x + w, y};
  if (pass == Pass::kI) return {flops, flops, y + w, x};
  return {flops, flops, y + x, w};
}

std::vector<Product> GroupedLinear::products(Pass pass, std::span<const TensorSpec> local) const {
  double out = 1, in = 1;
  for (const Extent& e : local[1].dims)
    if (e.dim != 'E') (local[0].has(e.dim) ? in : out) *= static_cast<double>(e.size);
  // Tokens spread evenly over the experts held here.
  const auto experts = static_cast<double>(local[1].size_of_dim('E'));
  const double rows = static_cast<double>(local[0].elements()) / in / experts;
  if (pass == Pass::kF) return {{rows, out, in, experts}};
  if (pass == Pass::kI) return {{rows, in, out, experts}};
  return {{out, in, rows, experts}};
}

}  // namespace sextant
