#include "sextant/ops/combine.h"

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> Combine::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 3 || in.size() == 4, "combine takes y, weights, experts and perhaps bias");
  TensorSpec out{.dtype = in[0].dtype};
  for (const Extent& e : in[0].dims)
    if (e.dim != 'A') out.dims.push_back(e);
  return {out};
}

std::variant<Row, Refusal> Combine::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement y = in[0].on(axis), R = replicate();
  const bool has_bias = in.size() == 4;
  Row row;
  if (y.kind == Kind::kShard && in[1].has(y.dim)) {
    row = {{y, y, y}, {y}};
    if (has_bias) row.in.push_back(copied());
  } else if (y.kind == Kind::kPartial && !has_bias) {
    // Linear in y: the sum over ranks may wait until the visits are added up, top_k times fewer bytes.
    row = {{partial(), copied(), R}, {partial()}};
  } else {
    row = {{R, R, R}, {R}};
    if (has_bias) row.in.push_back(R);
  }
  return row;
}

Work Combine::work(Pass pass, std::span<const TensorSpec> local) const {
  const double flops = (pass == Pass::kF ? 2.0 : 4.0) * static_cast<double>(local[0].elements());
  const Bytes y = total_bytes(local.subspan(0, 1));
  const Bytes out{y.value / local[0].size_of_dim('A')};
  return pass == Pass::kF ? Work{flops, flops, y, out} : Work{flops, flops, y + out, y};
}

}  // namespace sextant
