#pragma once
// The passes that make a program's lists, in the order in which they run. Not for users of `build_program`.
#include "sextant/program/program.h"

namespace sextant {

// Until `link`, an instruction that starts work and the kWait that finishes it carry the same ticket in `waits_for`.
class Tickets {
 public:
  std::int32_t next() { return next_++; }

 private:
  std::int32_t next_ = 0;
};

/// Which units and stages every coordinate has, from the schedule; units are empty.
void place_stages(Program& program, const Schedule& schedule, const std::vector<int>& stage_sizes);
/// Parameters into buckets, the same at each holder. `bucket`: bytes at which one is closed, 0 for one a stage.
void make_buckets(Program& program, Bytes bucket);

/// schedule: one kRun for each unit of each action.
void schedule_units(RankProgram& rank, const std::vector<Action>& actions);
/// shard: gathers of parameters under a budget of live buckets, each started one unit ahead if the budget lets it;
/// reductions of gradients behind their last contribution.
void shard(const Program& program, RankProgram& rank, int live_buckets, Tickets& tickets);
/// communicate: messages between stages on different coordinates.
void communicate(Program& program, std::vector<Tickets>& tickets);
/// tail: what a step starts and ends with.
void add_tail(const Program& program, RankProgram& rank, Tickets& tickets);
/// Tickets become indices.
void link(RankProgram& rank);

}  // namespace sextant
