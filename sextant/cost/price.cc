#include "sextant/cost/price.h"

#include <algorithm>
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
  const Device& device = network.cluster().device;
  const std::vector<std::size_t> done = done_before(steps);
  PassPrice price;
  const auto waited = [&](Axis axis) -> Seconds& {
    return axis == Axis::kTp ? price.tp : axis == Axis::kCp ? price.cp : price.ep;
  };
  struct Started {
    Axis axis;
    std::size_t done;
    double end;
  };
  std::vector<Started> started;
  std::array<double, kNumAxes> stream{};  // when the last collective over an axis ends
  double now = 0, moved = 0, issued = 0;
  bool over_tp = false, over_cp = false, over_ep = false;
  const auto wait = [&](Axis axis, double until) {
    if (until > now) waited(axis).value += until - now, now = until;
  };
  for (std::size_t s = 0; s <= steps.size(); ++s) {
    for (const Started& c : started)
      if (c.done == s) wait(c.axis, c.end);
    if (s == steps.size()) break;
    // A kernel starts when the one before it is done and the host has launched it.
    issued += device.host.value;
    const double start = std::max(now, issued), time = step_time(unit, steps[s], mesh, gradient_dtype, device).value;
    price.compute.value += start + time - now, now = start + time;
    for (const NamedTraffic& named : traffic(unit, steps[s], mesh)) {
      const Axis axis = named.traffic.axis;
      (axis == Axis::kTp ? over_tp : axis == Axis::kCp ? over_cp : over_ep) = true;
      double& ends = stream[static_cast<std::size_t>(axis)];
      const double takes = traffic_time(named.traffic, mesh, network).value;
      moved += takes, ends = std::max(ends, now) + takes;
      if (device.overlaps && device.overlaps_layers && starts_collective(steps[s]))
        started.push_back({axis, done[s], ends});
      else
        wait(axis, ends);
    }
  }
  // What is hidden slows down what hides it.
  const double hidden = std::max(0.0, moved - (price.tp + price.cp + price.ep).value);
  const double work = price.compute.value;
  price.compute.value += device.interference * hidden;
  // Ranks that meet within the pass wait for the slowest of them, each time for what they did since the last.
  const auto meet = [&](bool meets, Axis axis, int n) {
    if (meets) waited(axis).value += device.jitter * greatest_of(n) * work;
  };
  meet(over_tp, Axis::kTp, mesh[Axis::kTp]);
  meet(over_cp, Axis::kCp, mesh[Axis::kCp]);
  meet(over_ep, Axis::kEp, mesh[Axis::kEp] * mesh[Axis::kEtp]);
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
          price_pass(unit, unit.w, mesh, gradient_dtype, network),
          price_pass(unit, unit.b(), mesh, gradient_dtype, network)};
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
