#pragma once
// What collectives and messages take on a cluster's links.
#include <string>
#include <vector>

#include "sextant/cluster/cluster.h"
#include "sextant/ops/op.h"

namespace sextant {

/// Ranks 0, stride, 2 stride ... of a cluster that is filled in order of rank: a group along a mesh axis. All groups of
/// the axis work at once, so each device has its own links to itself, and shares those of inner levels with the members
/// of its group only.
struct RankGroup {
  int stride = 1, size = 1;
};

/// Which algorithm a collective was priced with.
enum class Algorithm : std::uint8_t { kNone, kRing, kTree, kHierarchical, kInNetwork, kDirect, kTorus };
std::string_view name_of(Algorithm algorithm);

struct CollectiveTime {
  Seconds time;
  Algorithm algorithm = Algorithm::kNone;
  int level = 0;  ///< outermost level that it crosses
};

class Network {
 public:
  explicit Network(const Cluster& cluster) : cluster_(cluster) {}

  /// Time of a collective over `group` on a tensor of `whole` bytes (gathered, or to be summed; of an all-to-all what
  /// one rank holds). The least over the algorithms and protocols that a library chooses from, so it grows with the
  /// bytes and has no jumps. Zero for one rank.
  ///   ring         base + hops + 2 (n - 1) / n whole / bus (all-reduce; half of it for the others)
  ///   tree         base + 2 depth hops + the same bytes at 0.92 of the bus
  ///   hierarchical reduce-scatter within, all-reduce across, all-gather within (recursively over the levels)
  ///   in network   base + the same bytes over the rate that the switches reach (as bus bandwidth)
  ///   direct       every pair at once (all-to-all)
  ///   torus        whole / (sum of the bandwidths of its axes), hops to the farthest device
  /// Sources: Thakur et al. 2005; NCCL's tuning model (base costs, hops, bandwidth factors by protocol); the scaling
  /// book for tori. docs/collectives.md has steps and bytes.
  CollectiveTime collective(CollectiveKind kind, Bytes whole, RankGroup group) const;
  /// A message between ranks that are `distance` apart.
  Seconds message(Bytes bytes, int distance) const;

  const Cluster& cluster() const { return cluster_; }

 private:
  /// Members of the group within one domain of each level.
  struct Members {
    std::array<int, Cluster::kMostLevels> in_level{};
    std::size_t count = 0;
    std::size_t size() const { return count; }
    int operator[](std::size_t level) const { return in_level[level]; }
    int& operator[](std::size_t level) { return in_level[level]; }
    int back() const { return in_level[count - 1]; }
  };
  Members members(RankGroup group) const;
  CollectiveTime switched(CollectiveKind kind, double bytes, const Members& members) const;
  CollectiveTime torus(CollectiveKind kind, double bytes, RankGroup group) const;
  const Cluster& cluster_;
};

}  // namespace sextant
