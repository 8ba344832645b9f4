#include "sextant/ops/norm.h"

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> Norm::outputs(std::span<const TensorSpec> in) const {
  const bool layer = norm == NormKind::kLayer;
  check(in.size() == 2 || (layer && in.size() == 3), "layernorm takes x, w and perhaps b; rmsnorm x, w");
  const std::size_t free = in[0].dims.size() - in[1].dims.size();
  TensorSpec statistic{.dtype = statistic_of(in[0].dtype)};
  for (std::size_t i = 0; i < in[0].dims.size(); ++i) {
    if (i < free)
      statistic.dims.push_back(in[0].dims[i]);
    else
      check(in[0].dims[i].dim == in[1].dims[i - free].dim, "the normalised dims stand last");
  }
  TensorSpec y{.dims = in[0].dims, .dtype = in[0].dtype};
  std::vector<TensorSpec> out = {y, statistic};
  if (layer) out.push_back(statistic);
  if (kernel == NormKernel::kSeveral) {
    y.dtype = statistic_of(y.dtype);
    out.push_back(y), out.push_back(y);
  }
  return out;
}

Needs Norm::needs(Pass) const {
  const int num_statistics = norm == NormKind::kLayer ? 2 : 1;
  Needs needs{{1}, {1}};
  if (num_statistics == 2) needs.out.push_back(2);
  if (kernel == NormKernel::kOne)
    needs.in = {0, 1};
  else
    needs.out.push_back(num_statistics + 1), needs.out.push_back(num_statistics + 2);
  return needs;
}

std::variant<Row, Refusal> Norm::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement x = in[0].on(axis), w = in[1].on(axis);
  const bool layer = norm == NormKind::kLayer;
  const auto statistics = [&](Placement p) { return std::vector<Placement>(layer ? 2 : 1, p); };
  Row row;
  Placement y = replicate(), used = replicate(), statistic = replicate();
  if (w.kind == Kind::kShard && layer) return Refusal{"a layer norm over split heads has no kernel; use tp = 1"};
  if (w.kind == Kind::kShard) {  // the normalised dim is split: sums are completed inside
    y = used = w;
    std::string free;
    for (const Extent& e : in[0].dims)
      if (!in[1].has(e.dim)) free += e.dim;
    row.inside_f = row.inside_i = {{"sums", CollectiveKind::kAllReduce, free, 1}};
  } else if (x.kind == Kind::kShard && !in[1].has(x.dim)) {
    y = statistic = x;
    used = copied();
  }
  row.in = {y, used};
  if (in.size() == 3) row.in.push_back(used);
  row.out = {y};
  for (const Placement p : statistics(statistic)) row.out.push_back(p);
  if (kernel == NormKernel::kSeveral) row.out.push_back(y), row.out.push_back(y);
  return row;
}

Work Norm::work(Pass pass, std::span<const TensorSpec> local) const {
  const double n = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  if (kernel == NormKernel::kSeveral) {
    // Widened, squared, averaged, scaled, narrowed, times w: about three passes each way over float32.
    const Bytes wide{local[0].elements() * 4};
    return pass == Pass::kF ? Work{5 * n, 5 * n, x + wide * 3, x + wide * 3}
                            : Work{11 * n, 11 * n, x + wide * 6, x + wide * 5};
  }
  if (pass == Pass::kF) return {5 * n, 5 * n, x, x};
  return {11 * n, 11 * n, x * 2, x};
}

}  // namespace sextant
