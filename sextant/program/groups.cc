#include "sextant/program/groups.h"

#include "sextant/base/errors.h"

namespace sextant {

Coordinates coordinates_of(int rank, const MeshSizes& mesh) {
  Coordinates c;
  c.tp = rank % mesh[Axis::kTp], rank /= mesh[Axis::kTp];
  c.cp = rank % mesh[Axis::kCp], rank /= mesh[Axis::kCp];
  c.dp_shard = rank % mesh[Axis::kDpShard], rank /= mesh[Axis::kDpShard];
  c.dp_replicate = rank;
  return c;
}

std::string_view name_of(Group group) {
  constexpr std::string_view names[] = {"dp_shard·cp", "dp_replicate", "data",    "tp",
                                        "cp",          "copies",       "holders", "world"};
  return names[static_cast<std::size_t>(group)];
}

int size_of(Group group, const MeshSizes& mesh) {
  const int zero = mesh[Axis::kDpShard] * mesh[Axis::kCp], replicas = mesh[Axis::kDpReplicate];
  switch (group) {
    case Group::kZero:
      return zero;
    case Group::kReplicas:
      return replicas;
    case Group::kData:
      return zero * replicas;
    case Group::kTensor:
      return mesh[Axis::kTp];
    case Group::kContext:
      return mesh[Axis::kCp];
    case Group::kCopies:
    case Group::kHolders:
    case Group::kWorld:
      break;
  }
  throw InternalError("the size of this group is known where it is used");
}

int place_in(Group group, const Coordinates& at, const MeshSizes& mesh) {
  const int zero = at.dp_shard * mesh[Axis::kCp] + at.cp;
  switch (group) {
    case Group::kZero:
      return zero;
    case Group::kReplicas:
      return at.dp_replicate;
    case Group::kData:
      return at.dp_replicate * size_of(Group::kZero, mesh) + zero;
    case Group::kTensor:
      return at.tp;
    case Group::kContext:
      return at.cp;
    default:
      throw InternalError("the place in this group is known where it is used");
  }
}

}  // namespace sextant
