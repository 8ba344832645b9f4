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

int place_on(Axis axis, const Coordinates& at, const MeshSizes& mesh) {
  const int rank = (at.dp_shard * mesh[Axis::kCp] + at.cp) * mesh[Axis::kTp] + at.tp;  // of its replica
  const int ep = mesh[Axis::kEp], etp = mesh[Axis::kEtp];
  switch (axis) {
    case Axis::kDpReplicate:
      return at.dp_replicate;
    case Axis::kDpShard:
      return at.dp_shard;
    case Axis::kCp:
      return at.cp;
    case Axis::kTp:
      return at.tp;
    case Axis::kEdp:
      return rank / (ep * etp);
    case Axis::kEp:
      return rank / etp % ep;
    case Axis::kEtp:
      return rank % etp;
  }
  throw InternalError("an axis of neither grid");
}

std::string_view name_of(Group group) {
  constexpr std::string_view names[] = {"dp_shard·cp", "dp_replicate", "data",   "tp",      "cp",   "edp",
                                        "ep",          "etp",          "copies", "holders", "world"};
  return names[static_cast<std::size_t>(group)];
}

Group group_along(Axis axis) {
  switch (axis) {
    case Axis::kDpReplicate:
      return Group::kReplicas;
    case Axis::kCp:
      return Group::kContext;
    case Axis::kTp:
      return Group::kTensor;
    case Axis::kEdp:
      return Group::kExpertZero;
    case Axis::kEp:
      return Group::kExpert;
    case Axis::kEtp:
      return Group::kExpertTensor;
    case Axis::kDpShard:
      break;
  }
  throw InternalError("no group lies along this axis alone");
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
    case Group::kExpertZero:
      return mesh[Axis::kEdp];
    case Group::kExpert:
      return mesh[Axis::kEp];
    case Group::kExpertTensor:
      return mesh[Axis::kEtp];
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
    case Group::kExpertZero:
      return place_on(Axis::kEdp, at, mesh);
    case Group::kExpert:
      return place_on(Axis::kEp, at, mesh);
    case Group::kExpertTensor:
      return place_on(Axis::kEtp, at, mesh);
    default:
      throw InternalError("the place in this group is known where it is used");
  }
}

}  // namespace sextant
