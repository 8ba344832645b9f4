#include "sextant/program/memory.h"
#include "sextant/sim/virtual_run.h"

namespace sextant {

std::vector<LiveSample> live_over_time(const Program& program, const VirtualRun& run, int pp) {
  const RankProgram& list = program.by_pp.at(static_cast<std::size_t>(pp));
  const std::vector<Span>& spans = run.by_pp.at(static_cast<std::size_t>(pp));
  std::vector<LiveSample> out;
  int chunks = 0;
  plan_memory(program, pp, {}, {}, 1, [&](std::size_t i, Bytes greatest, Bytes behind) {
    const Instruction& instruction = list.code[i];
    const auto sample = [&](Seconds time, Bytes bytes) {
      if (out.empty() || out.back().chunks != chunks || out.back().bytes != bytes) out.push_back({time, chunks, bytes});
    };
    const bool is_first = instruction.code == Code::kRun && instruction.unit == list.stage(instruction.unit).first_unit;
    chunks += is_first && instruction.pass == Pass::kF;
    sample(spans[i].start, greatest);
    chunks -= is_first && (instruction.fused || instruction.pass == Pass::kW);
    sample(spans[i].end, behind);
  });
  return out;
}

}  // namespace sextant
