#include "sextant/ops/router.h"

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> Router::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == (has_bias ? 3 : 2) && in[1].dims[0].dim == 'E', "a router takes x, w[E D] and perhaps b[E]");
  check(rule.top_k <= in[1].size_of_dim('E'), "a token visits at most all experts");
  TensorSpec weights{.dtype = in[0].dtype};
  for (const Extent& e : in[0].dims)
    if (!in[1].has(e.dim)) weights.dims.push_back(e);
  weights.dims.push_back({'A', rule.top_k});
  TensorSpec experts = weights;
  experts.dtype = DType::kI32;
  return {weights, experts};
}

std::variant<Row, Refusal> Router::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement x = in[0].on(axis);
  if (in[1].on(axis).kind == Kind::kShard) return Refusal{"a router sees all experts; its weight cannot be split"};
  const bool is_split = x.kind == Kind::kShard && !in[1].has(x.dim);
  const Placement tokens = is_split ? x : replicate(), used = is_split ? copied() : replicate();
  Row row{{tokens, used}, {tokens, tokens}};
  if (has_bias) row.in.push_back(used);
  // The balance loss counts a whole sequence.
  if (rule.auxiliary > 0 && is_split && x.dim == 'S')
    row.inside_f = {{"expert counts", CollectiveKind::kAllReduce, "B", 2 * static_cast<int>(in[1].size_of_dim('E'))}};
  return row;
}

Bytes Router::scratch(Pass, std::span<const TensorSpec> local, int) const {
  const std::int64_t tokens = local[0].elements() / local[1].dims[1].size;
  return {tokens * local[1].size_of_dim('E') * size_of(local[0].dtype)};
}

Work Router::work(Pass pass, std::span<const TensorSpec> local) const {
  const double tokens = static_cast<double>(local[0].elements()) / static_cast<double>(local[1].dims[1].size);
  const double product = 2 * tokens * static_cast<double>(local[1].elements());
  const Bytes x = total_bytes(local.subspan(0, 1)), w = total_bytes(local.subspan(1, 1));
  if (pass == Pass::kF) return {product, product, x + w, {}};
  return {2 * product, 2 * product, x + w, x + w};
}

}  // namespace sextant
