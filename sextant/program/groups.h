#pragma once
// Who talks to whom in a step.
#include <string>

#include "sextant/ops/op.h"

namespace sextant {

/// Coordinates of a rank within its pipeline coordinate: tp innermost, then cp, dp_shard, dp_replicate.
struct Coordinates {
  int dp_replicate = 0, dp_shard = 0, cp = 0, tp = 0;
};
Coordinates coordinates_of(int rank, const MeshSizes& mesh);
/// A rank's place on an axis, of either grid.
int place_on(Axis axis, const Coordinates& at, const MeshSizes& mesh);

/// Groups of ranks of one pipeline coordinate, but for the last two, that reach over several.
enum class Group : std::uint8_t {
  kZero,          ///< dp_shard x cp: what ZeRO shards over
  kReplicas,      ///< dp_replicate
  kData,          ///< both: every rank with other tokens
  kTensor,        ///< tp
  kContext,       ///< cp
  kExpertZero,    ///< edp: what ZeRO shards experts over
  kExpert,        ///< ep
  kExpertTensor,  ///< etp
  kCopies,        ///< neighbours in tp that hold the same slice
  kHolders,       ///< the pipeline coordinates that hold a bucket, at equal coordinates in the mesh
  kWorld          ///< all ranks
};
inline constexpr int kNumGroups = 11;
std::string_view name_of(Group group);
/// Ranks in a group that lies within one pipeline coordinate (not kCopies: a bucket says how many).
int size_of(Group group, const MeshSizes& mesh);
/// Ranks along one axis.
Group group_along(Axis axis);
/// What ZeRO shards a grid's parameters over.
constexpr Group zero_group(Grid grid) { return grid == Grid::kExpert ? Group::kExpertZero : Group::kZero; }
/// A rank's place in such a group.
int place_in(Group group, const Coordinates& at, const MeshSizes& mesh);

}  // namespace sextant
