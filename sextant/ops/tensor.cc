#include "sextant/ops/tensor.h"

#include <algorithm>

#include "sextant/base/errors.h"

namespace sextant {

std::string_view name_of(Axis axis) {
  constexpr std::string_view names[] = {"dp_replicate", "dp_shard", "cp", "tp", "edp", "ep", "etp"};
  return names[static_cast<std::size_t>(axis)];
}

std::string to_string(Placement p) {
  switch (p.kind) {
    case Kind::kReplicate:
      return "R";
    case Kind::kCopied:
      return "C";
    case Kind::kPartial:
      return "P";
    case Kind::kShard:
      return p.copies > 1 ? str("S(", p.dim, ",", p.copies, ")") : str("S(", p.dim, ")");
  }
  return "?";
}

bool TensorSpec::has(Dim dim) const {
  return std::any_of(dims.begin(), dims.end(), [&](const Extent& e) { return e.dim == dim; });
}

std::int64_t TensorSpec::size_of_dim(Dim dim) const {
  for (const Extent& e : dims)
    if (e.dim == dim) return e.size;
  return 1;
}

std::int64_t TensorSpec::elements() const {
  std::int64_t product = 1;
  for (const Extent& e : dims) product *= e.size;
  return product;
}

Placement TensorSpec::on(Axis axis) const {
  const auto axes = axes_of(grid);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == axis) return at[i];
  return replicate();
}

void TensorSpec::place(Axis axis, Placement placement) {
  const auto axes = axes_of(grid);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == axis) at[i] = placement;
}

std::int64_t local_size(const TensorSpec& spec, Dim dim, const MeshSizes& mesh) {
  std::int64_t size = spec.size_of_dim(dim);
  for (const Axis axis : axes_of(spec.grid)) {
    const Placement p = spec.on(axis);
    if (p.kind != Kind::kShard || p.dim != dim) continue;
    const std::int64_t slices = std::max(1, mesh[axis] / p.copies);
    size = (size + slices - 1) / slices;
  }
  return size;
}

std::int64_t local_elements(const TensorSpec& spec, const MeshSizes& mesh) {
  std::int64_t product = 1;
  for (const Extent& e : spec.dims) product *= local_size(spec, e.dim, mesh);
  return product;
}

Bytes local_bytes(const TensorSpec& spec, const MeshSizes& mesh) {
  return {local_elements(spec, mesh) * size_of(spec.dtype)};
}

TensorSpec local(const TensorSpec& spec, const MeshSizes& mesh) {
  TensorSpec out = spec;
  for (Extent& e : out.dims) e.size = local_size(spec, e.dim, mesh);
  out.at = {};
  return out;
}

std::string to_string(const TensorSpec& spec, const MeshSizes& mesh) {
  std::string out = "[";
  for (const Extent& e : spec.dims) out += str(out.size() > 1 ? " " : "", e.dim, " ", e.size);
  out += "]";
  for (const Axis axis : axes_of(spec.grid))
    if (mesh[axis] > 1) out += str(" ", name_of(axis), " ", to_string(spec.on(axis)));
  return out;
}

}  // namespace sextant
