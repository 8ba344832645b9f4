#pragma once
// Prices of what a program's lists contain.
#include "sextant/cost/device_time.h"
#include "sextant/cost/network.h"

namespace sextant {

/// Expected maximum of n standard normals: how late the slowest of n ranks is, in deviations.
double greatest_of(int n);

/// What a pass of a unit takes on one rank: kernels one behind the other, and what its collectives, which start and end
/// where its list says, leave the rank waiting for. One stream for each axis; where the device cannot do both at once,
/// they take the rank's own time.
struct PassPrice {
  Seconds compute, tp, cp, ep;  ///< ep: over ep and etp
  Seconds total() const { return compute + tp + cp + ep; }
};
using UnitPrice = std::array<PassPrice, 4>;  ///< F, I, W; and B, which is I and W as one list
/// Where the price of a run stands.
constexpr std::size_t price_of(const Instruction& run) { return run.fused ? 3 : static_cast<std::size_t>(run.pass); }

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
