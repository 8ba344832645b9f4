#pragma once
// Which named dim is split over which mesh axis: all that a parallel strategy is inside a layer.
#include <vector>

#include "sextant/ops/op.h"

namespace sextant {

struct DimRule {
  Dim dim;
  Axis axis;
};

/// Rules in order: over each axis the first whose dim a tensor has decides.
struct Rules {
  std::vector<DimRule> dims;
  CpKind cp_kind = CpKind::kAllGather;
  Slices cp_slices = Slices::kContiguous;
};

/// A tensor's own placement over one axis: shard of the dim that a rule maps there (with copies if the dim is shorter
/// than the axis), else replicate. A rule for S applies to tensors with both B and S, never to a table of positions.
Placement own_placement(const TensorSpec& spec, Axis axis, const Rules& rules, const MeshSizes& mesh);

}  // namespace sextant
