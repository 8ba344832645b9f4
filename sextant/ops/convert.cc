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

Work Accumulate::work(Pass, std::span<const TensorSpec> local) const {
  const double flops = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local);
  return {flops, flops, x * 2, x};
}

}  // namespace sextant
