#pragma once
// Prices of what a program's lists contain.
#include "sextant/cost/device_time.h"
#include "sextant/cost/network.h"

namespace sextant {

/// Expected maximum of n standard normals: how late the slowest of n ranks is, in deviations.
double greatest_of(int n);

/// What a pass of a unit takes on one rank. Its collectives start and end within it, so nothing hides them.
struct PassPrice {
  Seconds compute, tp, cp, ep;  ///< ep: over ep and etp
  Seconds total() const { return compute + tp + cp + ep; }
};
using UnitPrice = std::array<PassPrice, 3>;  ///< F, I, W

/// Ranks are laid out tp innermost, then cp, dp_shard, dp_replicate, pp; for experts etp, ep, edp in their place.
RankGroup ranks_of(Group group, const MeshSizes& mesh);

/// What a pass's collective takes, all its calls.
Seconds traffic_time(const Traffic& traffic, const MeshSizes& mesh, const Network& network);
UnitPrice price_unit(const Unit& unit, const MeshSizes& mesh, DType gradient_dtype, const Network& network);

/// What moves a bucket's parameters and gradients.
struct BucketPrice {
  Seconds gather;  ///< kUnshard, kGatherParams
  Seconds reduce;  ///< kReduce
  Seconds rest;    ///< kReduceRest
};
BucketPrice price_bucket(const Program& program, const Bucket& bucket, const Network& network);

}  // namespace sextant
