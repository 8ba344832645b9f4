#include "sextant/ops/convert.h"

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> Convert::outputs(std::span<const TensorSpec> in) const {
  TensorSpec out = in[0];
  out.place(axis, to.kind == Kind::kCopied ? replicate() : to);
  return {out};
}

CollectiveKind Convert::collective() const {
  const bool whole = to.kind == Kind::kReplicate || to.kind == Kind::kCopied;
  if (from.kind == Kind::kPartial && whole) return CollectiveKind::kAllReduce;
  if (from.kind == Kind::kPartial && to.kind == Kind::kShard) return CollectiveKind::kReduceScatter;
  if (from.kind == Kind::kShard && whole) return CollectiveKind::kAllGather;
  if (from.kind == Kind::kShard && to.kind == Kind::kShard && from.dim != to.dim) return CollectiveKind::kAllToAll;
  return CollectiveKind::kNone;
}

Bytes Convert::bytes(const TensorSpec& before, const MeshSizes& mesh) const {
  TensorSpec unsplit = before;
  unsplit.place(axis, replicate());
  return received_bytes(collective(), local_bytes(unsplit, mesh), mesh[axis]);
}

std::vector<Piece> Convert::pieces(Dim dim, std::int64_t whole, int r) const {
  if (slices == Slices::kZigzag && dim == 'S') {
    const std::int64_t chunk = whole / (2 * degree);
    return {{r * chunk, 0, chunk}, {(2 * degree - 1 - r) * chunk, chunk, chunk}};
  }
  const std::int64_t size = whole / degree;
  return {{r * size, 0, size}};
}

bool Convert::is_contiguous(const TensorSpec& spec, Dim dim) const {
  if (slices == Slices::kZigzag && dim == 'S') return false;
  for (const Extent& e : spec.dims) {
    if (e.dim == dim) return true;
    if (e.size != 1) return false;
  }
  return true;
}

Bytes Convert::scratch(Pass, std::span<const TensorSpec> local, int) const {
  const Bytes in = total_bytes(local.subspan(0, 1));
  switch (collective()) {
    case CollectiveKind::kAllGather:
      return is_contiguous(local[0], from.dim) ? Bytes{} : in * degree;
    case CollectiveKind::kReduceScatter:
      return is_contiguous(local[0], to.dim) ? Bytes{} : in;
    case CollectiveKind::kAllToAll:
      return in * 2;
    default:
      return {};
  }
}

Work Accumulate::work(Pass, std::span<const TensorSpec> local) const {
  const double flops = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local);
  return {flops, flops, x * 2, x};
}

}  // namespace sextant
