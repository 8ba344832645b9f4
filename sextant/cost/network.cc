#include "sextant/cost/network.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

constexpr double kMicro = 1e-6;
// NCCL's protocols (tuning.cc, June 2026): cost of a call, and the share of the bandwidth that payload has. Low latency
// sends a flag with every word, the next one with every 128 bytes, bulk synchronises by chunks.
struct Protocol {
  double ring_base, tree_base, share;
  double tree_hop;  // of a hop over a network in a tree, in hops of a ring
};
constexpr Protocol kProtocols[] = {
    {6.6 * kMicro, 6.8 * kMicro, 0.5, 1.9}, {14 * kMicro, 14 * kMicro, 0.92, 2.1}, {8.4 * kMicro, 8.4 * kMicro, 1, 1}};
constexpr double kTreeShare = 0.92;
// A call that the switches reduce (NVLS): measured end to end on eight H100.
constexpr double kInNetworkBase = 25 * kMicro;

// Of a binary tree of n: log2 n, rounded up.
double depth(int n) { return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1)); }

double all_reduce_factor(CollectiveKind kind) { return kind == CollectiveKind::kAllReduce ? 2 : 1; }

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view names[] = {"none", "ring", "tree", "hierarchical", "in network", "direct", "torus"};
  return names[static_cast<std::size_t>(algorithm)];
}

Network::Members Network::members(RankGroup group) const {
  Members out;
  for (const Level& l : cluster_.levels) out[out.count++] = std::clamp(l.size / group.stride, 1, group.size);
  out[out.count - 1] = group.size;
  return out;
}

CollectiveTime Network::switched(CollectiveKind kind, double bytes, const Members& members) const {
  const int n = members.back();
  const double ranks = n, moved = all_reduce_factor(kind) * (ranks - 1) / ranks * bytes;
  CollectiveTime best{{std::numeric_limits<double>::max()}};
  const auto offer = [&](double time, Algorithm algorithm) {
    if (time < best.time.value) best.time = {time}, best.algorithm = algorithm;
  };
  int outer = 0;
  for (std::size_t l = 0; l < members.size(); ++l)
    if (members[l] > (l == 0 ? 1 : members[l - 1])) outer = static_cast<int>(l);

  // What passes each level per rank and second. A ring leaves a domain once, so the members of a domain share its edge,
  // each with its own link.
  double bus = std::numeric_limits<double>::max(), exchange = 0;
  for (std::size_t l = 0; l < members.size(); ++l) {
    const int within = l == 0 ? 1 : members[l - 1];
    if (members[l] == within) continue;
    const Level& level = cluster_.levels[l];
    const double device =
        level.pair > 0 ? std::min(level.bandwidth, level.pair * (members[l] / within - 1)) : level.bandwidth;
    const double share = kind == CollectiveKind::kAllReduce ? level.all_reduce : level.all_gather;
    bus = std::min(bus, device * share * within);
    // All-to-all: what a rank has for members beyond the inner domain goes over its own link of this level.
    exchange = std::max(exchange, bytes * (members[l] - within) / ranks / (device * level.all_to_all));
  }
  for (std::size_t p = 0; p < std::size(kProtocols); ++p) {
    const Protocol& protocol = kProtocols[p];
    double ring_hops = 0, tree_hops = 0;
    for (std::size_t l = 0; l < members.size(); ++l) {
      const int within = l == 0 ? 1 : members[l - 1], domains = n / members[l], parts = n / within;
      const double hop = cluster_.levels[l].latency[p].value;
      ring_hops += (parts - domains) * hop;
      tree_hops += l == 0 ? (members[0] - 1) * hop : depth(members[l] / within) * hop * protocol.tree_hop;
    }
    if (kind == CollectiveKind::kAllToAll) {
      // Messages to all others are on their way at once; each starts one behind the other.
      offer(protocol.ring_base + cluster_.levels[static_cast<std::size_t>(outer)].latency[p].value +
                (ranks - 1) * cluster_.levels[0].latency[0].value + exchange / protocol.share,
            Algorithm::kDirect);
      continue;
    }
    const double factor = all_reduce_factor(kind);
    offer(protocol.ring_base + factor * ring_hops + moved / (bus * protocol.share), Algorithm::kRing);
    if (kind == CollectiveKind::kAllReduce)
      offer(protocol.tree_base + 2 * tree_hops + moved / (bus * protocol.share * kTreeShare), Algorithm::kTree);
    // By levels, inner to outer and back: each stage moves what its domain is left with.
    double staged = protocol.ring_base, left = bytes;
    int stages = 0;
    for (std::size_t l = 0; l < members.size(); ++l) {
      const int within = l == 0 ? 1 : members[l - 1], parts = members[l] / within;
      if (parts == 1) continue;
      ++stages;
      const Level& level = cluster_.levels[l];
      const double device = level.pair > 0 ? std::min(level.bandwidth, level.pair * (parts - 1)) : level.bandwidth;
      const double share = kind == CollectiveKind::kAllReduce ? level.all_reduce : level.all_gather;
      staged += factor *
                ((parts - 1) * level.latency[p].value + left * (parts - 1) / parts / (device * share * protocol.share));
      left /= parts;
    }
    if (stages > 1) offer(staged, Algorithm::kHierarchical);
  }
  const Level& inner = cluster_.levels[0];
  if (kind == CollectiveKind::kAllReduce && outer == 0 && inner.in_network > 0 && n >= inner.in_network_least)
    offer(kInNetworkBase + moved / (inner.bandwidth * inner.in_network), Algorithm::kInNetwork);
  best.level = outer;
  return best;
}

CollectiveTime Network::torus(CollectiveKind kind, double bytes, RankGroup group) const {
  const Level& level = cluster_.levels[0];
  // Ranks fill the torus axis by axis. The group takes, of each axis, what its stride and size reach.
  double sum = 0, hops = 0, bisection = 0;
  int inside = 1, left = group.size;
  for (const int length : level.shape) {
    const int stride = std::max(1, group.stride / inside);  // within this axis
    inside *= length;
    if (left == 1 || stride >= length) continue;
    const int taken = std::min(left, length / stride);
    if (taken == 1) continue;
    left = (left + taken - 1) / taken;
    // Only a whole axis closes to a ring; a part of one is a line.
    const bool is_ring = taken * stride == length && length % level.wrap == 0;
    const double both_ways =
        level.link * (is_ring ? 2 : 1) / stride;  // neighbours of the group are `stride` links apart
    sum += both_ways;
    bisection = std::max(bisection, both_ways);
    hops += is_ring ? taken * stride / 2.0 : (taken - 1.0) * stride;
  }
  if (sum == 0) sum = level.link;
  const double base = 2 * kMicro, n = group.size, latency = hops * level.hop.value;
  if (kind == CollectiveKind::kAllToAll)
    return {{base + latency + bytes * (n - 1) / n / (4 * sum * level.all_to_all)}, Algorithm::kTorus, 0};
  const double share = kind == CollectiveKind::kAllReduce ? level.all_reduce : level.all_gather;
  const double factor = all_reduce_factor(kind);
  return {{base + factor * (latency + (n - 1) / n * bytes / (sum * share))}, Algorithm::kTorus, 0};
}

CollectiveTime Network::collective(CollectiveKind kind, Bytes whole, RankGroup group) const {
  if (group.size <= 1 || kind == CollectiveKind::kNone) return {};
  const auto bytes = static_cast<double>(whole.value);
  if (!cluster_.levels[0].is_torus()) {
    CollectiveTime out = switched(kind, bytes, members(group));
    out.time += cluster_.device.call;
    return out;
  }
  const Members in = members(group);
  if (in[0] == group.size) return torus(kind, bytes, group);
  if (in[0] == 1) return switched(kind, bytes, in);
  // A torus first, then the network between tori with what is left; an all-to-all sends over both at once.
  const RankGroup within{group.stride, in[0]};
  Members across = in;
  across[0] = 1;
  for (std::size_t l = 1; l < in.size(); ++l) across[l] = in[l] / in[0];
  const CollectiveTime inner = torus(kind, bytes, within);
  const double left = kind == CollectiveKind::kAllToAll ? bytes : bytes / in[0];
  CollectiveTime outer = switched(kind, left, across);
  outer.time = kind == CollectiveKind::kAllToAll ? std::max(outer.time, inner.time) : outer.time + inner.time;
  outer.algorithm = Algorithm::kHierarchical;
  return outer;
}

Seconds Network::message(Bytes bytes, int distance) const {
  const auto size = static_cast<double>(bytes.value);
  for (const Level& l : cluster_.levels)
    if (distance < l.size || &l == &cluster_.levels.back()) {
      if (l.is_torus()) return {2 * kMicro + l.hop.value + size / l.link};
      const double link = (l.pair > 0 ? l.pair : l.bandwidth) * l.all_gather;
      return {kProtocols[0].ring_base +
              std::min(l.latency[0].value + size / (link * kProtocols[0].share), l.latency[2].value + size / link)};
    }
  return {};
}

}  // namespace sextant
