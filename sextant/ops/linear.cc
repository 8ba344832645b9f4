#include "sextant/ops/linear.h"

#include "sextant/base/errors.h"

namespace sextant {

MatrixSizes matrix_sizes(const TensorSpec& x, const TensorSpec& w) {
  MatrixSizes s{1, 1, 1};
  for (const Extent& e : x.dims) (w.has(e.dim) ? s.k : s.m) *= e.size;
  for (const Extent& e : w.dims)
    if (!x.has(e.dim)) s.n *= e.size;
  return s;
}

std::vector<TensorSpec> Linear::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 || in.size() == 3, "linear takes x, w and perhaps b");
  TensorSpec y{.dtype = in[0].dtype};
  for (const Extent& e : in[0].dims)
    if (!in[1].has(e.dim))
      y.dims.push_back(e);
    else
      check(in[1].size_of_dim(e.dim) == e.size, "contracted dims are equal");
  for (const Extent& e : in[1].dims)
    if (!in[0].has(e.dim)) y.dims.push_back({renamed ? renamed : e.dim, e.size});
  return {y};
}

std::variant<Row, Refusal> Linear::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement x = in[0].on(axis), w = in[1].on(axis);
  const bool has_bias = in.size() == 3;
  Row row;
  if (w.kind == Kind::kShard && in[0].has(w.dim)) {
    if (has_bias)
      return Refusal{"a product over a split dim yields a sum and cannot carry a bias; use residual(y, bias, r)"};
    row = {{shard(w.dim), w}, {partial()}};
  } else if (w.kind == Kind::kShard) {
    row = {{copied(), w}, {w}};
    if (has_bias) row.in.push_back(w);
  } else if (x.kind == Kind::kShard && !in[1].has(x.dim)) {
    row = {{x, copied()}, {x}};
    if (has_bias) row.in.push_back(copied());
  } else {
    row = {{replicate(), replicate()}, {replicate()}};
    if (has_bias) row.in.push_back(replicate());
  }
  return row;
}

Needs Linear::needs(Pass pass) const {
  if (pass == Pass::kI) return {{1}, {}};
  if (pass == Pass::kW) return {{0}, {}};
  return {};
}

Work Linear::work(Pass pass, std::span<const TensorSpec> local) const {
  const auto [m, n, k] = matrix_sizes(local[0], local[1]);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t unit = size_of(local[0].dtype);
  const Bytes x{m * k * unit}, w{n * k * unit}, y{m * n * unit};
  if (pass == Pass::kF) return {flops, flops, x + w, y};
  if (pass == Pass::kI) return {flops, flops, y + w, x};
  return {flops, flops, y + x, w};
}

std::vector<Product> Linear::products(Pass pass, std::span<const TensorSpec> local) const {
  const auto [m, n, k] = matrix_sizes(local[0], local[1]);
  const auto a = static_cast<double>(m), b = static_cast<double>(n), c = static_cast<double>(k);
  if (pass == Pass::kF) return {{a, b, c}};
  if (pass == Pass::kI) return {{a, c, b}};
  return {{b, c, a}};
}

}  // namespace sextant
