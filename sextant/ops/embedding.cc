#include "sextant/ops/embedding.h"

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> Embedding::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 && !in[0].is_float() && in[1].dims.size() == 2, "embedding takes ids and a table");
  TensorSpec y{.dims = in[0].dims, .dtype = in[1].dtype};
  y.dims.push_back(in[1].dims[1]);
  return {y};
}

std::variant<Row, Refusal> Embedding::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement w = in[1].on(axis), ids = in[0].on(axis);
  if (w.kind == Kind::kShard && w.dim == in[1].dims[0].dim) return Row{{replicate(), w}, {partial()}};
  if (w.kind == Kind::kShard) return Row{{replicate(), w}, {w}};
  if (ids.kind == Kind::kShard) return Row{{ids, copied()}, {ids}};
  return Row{{replicate(), replicate()}, {replicate()}};
}

Work Embedding::work(Pass, std::span<const TensorSpec> local) const {
  const std::int64_t moved = local[0].elements() * local[1].dims[1].size * size_of(local[1].dtype);
  return {0, 0, Bytes{moved} + Bytes{local[0].elements() * 4}, Bytes{moved}};
}

}  // namespace sextant
