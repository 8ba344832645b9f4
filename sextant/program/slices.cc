#include "sextant/program/slices.h"

#include <algorithm>

namespace sextant {

DimSlice slice_of_dim(const TensorSpec& spec, Dim dim, const Coordinates& at, const MeshSizes& mesh) {
  const std::int64_t all = spec.size_of_dim(dim);
  std::int64_t first = 0, size = all, end = all;
  for (const Axis axis : axes_of(spec.grid)) {
    const Placement p = spec.on(axis);
    if (p.kind != Kind::kShard || p.dim != dim || mesh[axis] == 1) continue;
    const std::int64_t slices = std::max(1, mesh[axis] / p.copies);
    const int place = axis == Axis::kDpReplicate ? at.dp_replicate
                      : axis == Axis::kDpShard   ? at.dp_shard
                      : axis == Axis::kCp        ? at.cp
                                                 : at.tp;
    size = (size + slices - 1) / slices;
    first += place / p.copies * size;
    end = std::min(end, first + size);
  }
  return {first, size, std::max<std::int64_t>(0, end - first), all};
}

LocalElements::LocalElements(const TensorSpec& spec, const Coordinates& at, const MeshSizes& mesh) {
  for (const Extent& e : spec.dims) {
    dims_.push_back(slice_of_dim(spec, e.dim, at, mesh));
    whole_ = whole_ && dims_.back().size == e.size;
  }
}

std::int64_t LocalElements::logical(std::int64_t local) const {
  if (whole_) return local;
  std::int64_t out = 0, stride = 1;
  for (std::size_t d = dims_.size(); d-- > 0;) {
    const std::int64_t k = local % dims_[d].size;
    local /= dims_[d].size;
    if (k >= dims_[d].real) return -1;
    out += (dims_[d].first + k) * stride;
    stride *= dims_[d].all;
  }
  return out;
}

}  // namespace sextant
