#include "sextant/program/events.h"

namespace sextant {
namespace {

EventKind kind_of(const Instruction& run) {
  if (run.fused) return EventKind::kBackward;
  return run.pass == Pass::kF   ? EventKind::kForward
         : run.pass == Pass::kI ? EventKind::kInputGradient
                                : EventKind::kWeightGradient;
}

}  // namespace

Event action_event(const RankProgram& list, const Instruction& run) {
  return {.what = action_name(list, run),
          .kind = kind_of(run),
          .microbatch = run.microbatch - list.stage(run.unit).first_microbatch,
          .chunk = list.stage_of[static_cast<std::size_t>(run.unit)]};
}

Event unit_event(const RankProgram& list, const Instruction& run) {
  return {.what = list.units[static_cast<std::size_t>(run.unit)].name, .kind = kind_of(run)};
}

}  // namespace sextant
