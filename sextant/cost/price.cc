#include "sextant/cost/price.h"

#include <cmath>

#include "sextant/base/errors.h"

namespace sextant {

double greatest_of(int n) {
  constexpr double table[] = {0, 0, 0.564, 0.846, 1.029, 1.163, 1.267, 1.352, 1.424};
  return n < 9 ? table[n] : std::sqrt(2 * std::log(n)) - 0.62;
}

namespace {

// The whole tensor of a collective in which a rank receives so many bytes (docs/placements.md).
Bytes whole_of(CollectiveKind kind, Bytes received, int n) {
  const double factor = kind == CollectiveKind::kAllReduce ? 2 : 1;
  return {static_cast<std::int64_t>(static_cast<double>(received.value) * n / (factor * (n - 1)))};
}

PassPrice price_pass(const Unit& unit, const std::vector<Step>& steps, const MeshSizes& mesh, DType gradient_dtype,
                     const Network& network) {
  PassPrice price;
  for (const Step& step : steps) price.compute += step_time(unit, step, mesh, gradient_dtype, network.cluster().device);
  for (const NamedTraffic& named : traffic(unit, steps, mesh)) {
    const Traffic& t = named.traffic;
    (t.axis == Axis::kTp ? price.tp : t.axis == Axis::kCp ? price.cp : price.ep) += traffic_time(t, mesh, network);
  }
  // Ranks that meet within the pass wait for the slowest of them, each time for what they did since the last.
  const auto wait = [&](Seconds& axis, int n) {
    if (axis.value > 0) axis.value += network.cluster().device.jitter * greatest_of(n) * price.compute.value;
  };
  wait(price.tp, mesh[Axis::kTp]);
  wait(price.cp, mesh[Axis::kCp]);
  wait(price.ep, mesh[Axis::kEp] * mesh[Axis::kEtp]);
  return price;
}

}  // namespace

RankGroup ranks_of(Group group, const MeshSizes& mesh) {
  const int tp = mesh[Axis::kTp], cp = mesh[Axis::kCp], ep = mesh[Axis::kEp], etp = mesh[Axis::kEtp];
  switch (group) {
    case Group::kTensor:
      return {1, tp};
    case Group::kContext:
      return {tp, cp};
    case Group::kZero:
    case Group::kData:
      return {tp, size_of(group, mesh)};
    case Group::kReplicas:
      return {tp * cp * mesh[Axis::kDpShard], mesh[Axis::kDpReplicate]};
    case Group::kExpertTensor:
      return {1, etp};
    case Group::kExpert:
      return {etp, ep};
    case Group::kExpertZero:
      return {etp * ep, mesh[Axis::kEdp]};
    case Group::kCopies:
    case Group::kHolders:
    case Group::kWorld:
      break;
  }
  throw InternalError("the group of this group is known where it is used");
}

Seconds traffic_time(const Traffic& t, const MeshSizes& mesh, const Network& network) {
  const int n = mesh[t.axis];
  if (n == 1 || t.calls == 0) return {};
  const RankGroup group = ranks_of(group_along(t.axis), mesh);
  const Bytes call{whole_of(t.kind, t.bytes, n).value / t.calls};
  return {network.collective(t.kind, call, group).time.value * t.calls};
}

UnitPrice price_unit(const Unit& unit, const MeshSizes& mesh, DType gradient_dtype, const Network& network) {
  return {price_pass(unit, unit.f, mesh, gradient_dtype, network),
          price_pass(unit, unit.i, mesh, gradient_dtype, network),
          price_pass(unit, unit.w, mesh, gradient_dtype, network)};
}

BucketPrice price_bucket(const Program& program, const Bucket& bucket, const Network& network) {
  const MeshSizes& mesh = program.mesh;
  const RankGroup zero = ranks_of(zero_group(bucket.grid), mesh);
  const int stage = program.zero_of(bucket);
  const std::int64_t element = size_of(program.gradient_dtype);
  const Bytes parameters{bucket.elements * size_of(program.dtype)}, gradients{bucket.elements * element};
  BucketPrice price;
  price.gather = network.collective(CollectiveKind::kAllGather, parameters, zero).time;
  price.reduce =
      network.collective(stage == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter, gradients, zero)
          .time;
  const std::int64_t share = stage > 0 ? zero.size : 1;
  for (const RestSum& sum : bucket.rest) {
    const Bytes bytes{(sum.end - sum.begin) * element / share};
    RankGroup group;
    if (sum.group == Group::kCopies)
      group = {1, sum.copies};
    else if (sum.group == Group::kHolders)
      group = {mesh.num_ranks() * std::max(1, std::abs(bucket.holders.back() - bucket.holders.front())),
               static_cast<int>(bucket.holders.size())};
    else
      group = ranks_of(sum.group, mesh);
    price.rest += network.collective(CollectiveKind::kAllReduce, bytes, group).time;
  }
  return price;
}

}  // namespace sextant
