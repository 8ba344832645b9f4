#pragma once
// How a run of a unit is drawn: the same in virtual time and on the wall clock.
#include "sextant/program/program.h"
#include "sextant/trace/timeline.h"

namespace sextant {

/// The event of the schedule's action that an instruction (kRun) is of: its name ("2F3"), kind, microbatch and chunk.
/// Times and rank are the caller's to fill in.
Event action_event(const RankProgram& list, const Instruction& run);
/// The event of its unit alone, within that of the action: its name ("L03") and kind.
Event unit_event(const RankProgram& list, const Instruction& run);

}  // namespace sextant
