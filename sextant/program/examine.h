#pragma once
// The checker: whether a program is right, without running it.
#include "sextant/program/deadlock.h"

namespace sextant {

/// A rule that an instruction of a pipeline coordinate breaks. Rules, by name:
///   once        every unit runs F once for each of its microbatches, and B once or I and W once each
///   order       F before I before W; all behind COUNT_TOKENS and in front of GRAD_NORM
///   input       a run finds the boundary tensor it reads: made here, or received and waited for
///   message     one sender and one receiver with equal tag, shape and dtype; nothing is made and not taken
///   wait        what is started is finished, once, behind its start
///   gathered    a run finds the parameters it reads; what is gathered is freed once
///   reduced     every contribution to a gradient is in exactly one reduction, and none is late
///   tail        tokens, remaining sums, norm, decision, optimizer, parameters: once each, in this order
///   collectives coordinates that share a collective issue theirs in the same order
///   deadlock    ranks wait for each other
///   memory      all that a step allocates is freed
struct Violation {
  int pp = 0;
  int instruction = -1;  ///< -1: of the list as a whole
  std::string rule, what;
};
std::string to_string(const Violation& violation);

struct Examination {
  std::vector<Violation> violations;
  int least_slots = -1;            ///< eager buffers an ordered pair needs where sends block
  std::vector<Disorder> disorder;  ///< pairs that need tags or posted receives
};
/// All rules. With a violation of the lists themselves, deadlocks are looked for only as far as that makes sense.
Examination examine(const Program& program);
/// Throws InvalidInput that lists the violations (twenty at most) if there are any.
Examination require_sound(const Program& program);

}  // namespace sextant
