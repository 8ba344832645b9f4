#include "sextant/runtime/exec/rank_groups.h"

#include <numeric>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

bool has_experts(const Program& program) {
  for (const RankProgram& rank : program.by_pp)
    for (const Bucket& bucket : rank.buckets)
      if (bucket.grid == Grid::kExpert) return true;
  return false;
}

}  // namespace

RankGroups::RankGroups(const Program& program, Communicator& world)
    : pp_(world.rank() / program.mesh.num_ranks()),
      at_(coordinates_of(world.rank() % program.mesh.num_ranks(), program.mesh)) {
  check(world.size() == program.num_ranks(), "the world has as many ranks as the program");
  const int mesh_ranks = program.mesh.num_ranks();
  // Ranks of some pipeline coordinates whose mesh coordinates are as wanted.
  const auto group = [&](const std::vector<int>& coordinates, const auto& belongs) {
    std::vector<int> ranks;
    for (const int pp : coordinates)
      for (int r = 0; r < mesh_ranks; ++r)
        if (belongs(coordinates_of(r, program.mesh))) ranks.push_back(pp * mesh_ranks + r);
    return world.group(ranks);
  };
  std::vector<int> all(program.by_pp.size());
  std::iota(all.begin(), all.end(), 0);
  const auto same_data = [&](const Coordinates& c) {
    return c.dp_shard == at_.dp_shard && c.dp_replicate == at_.dp_replicate;
  };
  const auto same_place = [&](const Coordinates& c) { return c.tp == at_.tp && c.cp == at_.cp && same_data(c); };
  const auto make = [&](Group which, const std::vector<int>& coordinates, const auto& belongs) {
    by_group_[static_cast<std::size_t>(which)] = group(coordinates, belongs);
  };
  make(Group::kZero, {pp_}, [&](const Coordinates& c) { return c.tp == at_.tp && c.dp_replicate == at_.dp_replicate; });
  make(Group::kReplicas, {pp_},
       [&](const Coordinates& c) { return c.tp == at_.tp && c.cp == at_.cp && c.dp_shard == at_.dp_shard; });
  make(Group::kData, {pp_}, [&](const Coordinates& c) { return c.tp == at_.tp; });
  make(Group::kTensor, {pp_}, [&](const Coordinates& c) { return c.cp == at_.cp && same_data(c); });
  make(Group::kContext, {pp_}, [&](const Coordinates& c) { return c.tp == at_.tp && same_data(c); });
  // Ranks that differ from this one in one axis of the expert grid only.
  for (const Axis axis : {Axis::kEdp, Axis::kEp, Axis::kEtp})
    if (has_experts(program))
      make(group_along(axis), {pp_}, [&](const Coordinates& c) {
        for (const Axis other : axes_of(Grid::kExpert))
          if (other != axis && place_on(other, c, program.mesh) != place_on(other, at_, program.mesh)) return false;
        return true;
      });
  make(Group::kWorld, all, [](const Coordinates&) { return true; });
  pipeline_ = group(all, same_place);
  for (const Bucket& bucket : program.by_pp.at(static_cast<std::size_t>(pp_)).buckets) {
    for (const RestSum& sum : bucket.rest)
      if (sum.group == Group::kCopies && !copies_[sum.copies])
        copies_[sum.copies] = group({pp_}, [&](const Coordinates& c) {
          return c.tp / sum.copies == at_.tp / sum.copies && c.cp == at_.cp && same_data(c);
        });
    if (bucket.holders.size() > 1 && !holders_[bucket.holders])
      holders_[bucket.holders] = group(bucket.holders, same_place);
  }
}

Communicator& RankGroups::of(const Bucket& bucket, const RestSum& sum) const {
  if (sum.group == Group::kHolders) return *holders_.at(bucket.holders);
  if (sum.group == Group::kCopies) return *copies_.at(sum.copies);
  return (*this)[sum.group];
}

StepBytes RankGroups::received() const {
  StepBytes bytes;
  for (std::size_t g = 0; g < by_group_.size(); ++g)
    if (by_group_[g]) bytes.by_group[g] = by_group_[g]->received();
  for (const auto& [number, group] : copies_) bytes[Group::kCopies] += group->received();
  for (const auto& [coordinates, group] : holders_) bytes[Group::kHolders] += group->received();
  bytes.messages = pipeline_->received();
  return bytes;
}

}  // namespace sextant
