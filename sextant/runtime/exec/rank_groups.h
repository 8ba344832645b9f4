#pragma once
// The communicators of a rank, as a program's groups and axes name them.
#include <map>
#include <memory>

#include "sextant/program/program.h"
#include "sextant/runtime/comm/communicator.h"

namespace sextant {

class RankGroups {
 public:
  /// Called by all ranks of the world, whose order is tp, cp, dp, pp, innermost first. Must not outlive `world`.
  RankGroups(const Program& program, Communicator& world);

  int pp() const { return pp_; }  ///< pipeline coordinate
  const Coordinates& at() const { return at_; }
  /// Not kCopies or kHolders: there are several.
  Communicator& operator[](Group group) const { return *by_group_[static_cast<std::size_t>(group)]; }
  Communicator& over(Axis axis) const { return (*this)[group_along(axis)]; }
  /// The pipeline coordinates at this place of the mesh, in order.
  Communicator& pipeline() const { return *pipeline_; }
  /// Whom a sum that is left behind a bucket's reduction is over.
  Communicator& of(const Bucket& bucket, const RestSum& sum) const;
  StepBytes received() const;

 private:
  int pp_;
  Coordinates at_;
  std::array<std::unique_ptr<Communicator>, kNumGroups> by_group_;
  std::unique_ptr<Communicator> pipeline_;
  std::map<int, std::unique_ptr<Communicator>> copies_;                // by number: neighbours in tp
  std::map<std::vector<int>, std::unique_ptr<Communicator>> holders_;  // by pipeline coordinates
};

}  // namespace sextant
