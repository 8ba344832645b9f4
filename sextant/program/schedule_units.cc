#include "sextant/base/errors.h"
#include "sextant/program/passes.h"

namespace sextant {

void schedule_units(RankProgram& rank, const std::vector<Action>& actions) {
  const auto find_stage = [&](const Action& a) -> const Stage& {
    for (const Stage& s : rank.stages)
      if (s.index == a.stage && s.is_mirrored == a.mirrored) return s;
    throw InternalError("a rank's stages are those of its actions");
  };
  for (const Action& a : actions) {
    const Stage& stage = find_stage(a);
    const bool forward = a.kind == ActionKind::kF;
    Instruction run{.code = Code::kRun,
                    .pass = forward                    ? Pass::kF
                            : a.kind == ActionKind::kW ? Pass::kW
                                                       : Pass::kI,
                    .fused = a.kind == ActionKind::kB,
                    .microbatch = stage.first_microbatch + a.microbatch,
                    .pair = a.pair};
    for (int n = 0; n <= stage.last_unit - stage.first_unit; ++n) {
      run.unit = static_cast<std::int16_t>(forward ? stage.first_unit + n : stage.last_unit - n);
      rank.code.push_back(run);
    }
  }
}

void link(RankProgram& rank) {
  std::vector<std::int32_t> starter;
  for (std::size_t i = 0; i < rank.code.size(); ++i) {
    Instruction& instruction = rank.code[i];
    if (!starts_work(instruction.code)) continue;
    const auto ticket = static_cast<std::size_t>(instruction.waits_for);
    if (ticket >= starter.size()) starter.resize(ticket + 1, -1);
    starter[ticket] = static_cast<std::int32_t>(i);
    instruction.waits_for = -1;
  }
  for (Instruction& instruction : rank.code)
    if (instruction.code == Code::kWait)
      instruction.waits_for = starter.at(static_cast<std::size_t>(instruction.waits_for));
}

}  // namespace sextant
