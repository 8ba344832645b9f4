#include "sextant/ops/dispatch.h"

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> Dispatch::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 && in[1].has('A'), "dispatch takes x and experts[B S A]");
  TensorSpec y{.dims = in[0].dims, .dtype = in[0].dtype};
  y.dims.insert(y.dims.end() - 1, {'A', in[1].size_of_dim('A')});
  return {y};
}

std::variant<Row, Refusal> Dispatch::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement x = in[0].on(axis), R = replicate();
  if (x.kind == Kind::kShard && in[1].has(x.dim)) return Row{{x, x}, {x}};
  return Row{{R, R}, {R}};
}

Work Dispatch::work(Pass pass, std::span<const TensorSpec> local) const {
  const Bytes x = total_bytes(local.subspan(0, 1)), y = x * local[1].size_of_dim('A');
  const double adds = static_cast<double>(local[0].elements()) * static_cast<double>(local[1].size_of_dim('A'));
  return pass == Pass::kF ? Work{0, 0, x, y} : Work{adds, adds, y, x};
}

}  // namespace sextant
