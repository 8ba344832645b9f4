#pragma once
// Which elements of a logical tensor a rank holds.
#include "sextant/base/slices.h"
#include "sextant/program/groups.h"

namespace sextant {

/// Along one dim: local index k is logical index first + k; those from `real` on are padding.
struct DimSlice {
  std::int64_t first = 0, size = 0, real = 0, all = 0;
};
/// What a rank holds of a dim, as the tensor's placements nest: equal slices, the last ones padded.
DimSlice slice_of_dim(const TensorSpec& spec, Dim dim, const Coordinates& at, const MeshSizes& mesh);

/// The runs of a dim that a rank holds, in the order in which they lie there; no padding.
std::vector<Piece> pieces_of_dim(const TensorSpec& spec, Dim dim, const Coordinates& at, const MeshSizes& mesh,
                                 Slices cp_slices);

/// Local elements of a tensor in memory order, and the logical ones that they are.
class LocalElements {
 public:
  LocalElements(const TensorSpec& spec, const Coordinates& at, const MeshSizes& mesh);
  bool is_whole() const { return whole_; }
  /// Logical index of a local element; -1 for padding.
  std::int64_t logical(std::int64_t local) const;

 private:
  std::vector<DimSlice> dims_;
  bool whole_ = true;
};

}  // namespace sextant
