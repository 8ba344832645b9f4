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
    const int place = place_on(axis, at, mesh);
    size = (size + slices - 1) / slices;
    first += place / p.copies * size;
    end = std::min(end, first + size);
  }
  return {first, size, std::max<std::int64_t>(0, end - first), all};
}

std::vector<Piece> pieces_of_dim(const TensorSpec& spec, Dim dim, const Coordinates& at, const MeshSizes& mesh,
                                 Slices cp_slices) {
  const std::int64_t all = spec.size_of_dim(dim);
  std::vector<Piece> held{{0, 0, all}};
  std::int64_t size = all;
  // Cuts [begin, begin + length) out of what is held so far.
  const auto cut = [&](std::int64_t begin, std::int64_t length, std::vector<Piece>& out) {
    for (const Piece& p : held) {
      const std::int64_t from = std::max(begin, p.in_slice), to = std::min(begin + length, p.in_slice + p.size);
      if (from >= to) continue;
      const std::int64_t at_end = out.empty() ? 0 : out.back().in_slice + out.back().size;
      out.push_back({p.in_whole + from - p.in_slice, at_end, to - from});
    }
  };
  for (const Axis axis : axes_of(spec.grid)) {
    const Placement p = spec.on(axis);
    if (p.kind != Kind::kShard || p.dim != dim || mesh[axis] == 1) continue;
    const int n = mesh[axis], r = place_on(axis, at, mesh);
    std::vector<Piece> next;
    if (axis == Axis::kCp && dim == 'S' && cp_slices == Slices::kZigzag) {
      const std::int64_t chunk = size / (2 * n);
      cut(r * chunk, chunk, next);
      cut((2 * n - 1 - r) * chunk, chunk, next);
    } else {
      cut(r * (size / n), size / n, next);
    }
    size /= n;
    held = std::move(next);
  }
  return held;
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
