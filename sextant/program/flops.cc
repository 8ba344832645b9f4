#include "sextant/program/program.h"

namespace sextant {

double model_flops(const Program& program, FlopsOf attention) {
  double flops = 0;
  // Each op once, where its result is made (a head's in I), by its forward work; not what recomputation adds.
  const auto add = [&](const Unit& unit, const std::vector<Step>& steps, Pass pass) {
    for (const Step& step : steps) {
      if (!step.op->is_product() || step.pass != pass || step.op->result_pass() != pass) continue;
      const std::vector<TensorSpec> in = local_inputs(unit, step, program.mesh);
      const Work work = step.op->work(Pass::kF, in);
      // Rows that there may be are not rows that there are.
      flops += 3 * (attention == FlopsOf::kFull ? work.flops_full : work.flops_causal) / room_of(in);
    }
  };
  for (const RankProgram& rank : program.by_pp)
    for (std::size_t u = 0; u < rank.units.size(); ++u) {
      if (rank.stage(static_cast<int>(u)).is_mirrored) continue;
      add(rank.units[u], rank.units[u].f, Pass::kF);
      add(rank.units[u], rank.units[u].i, Pass::kI);
    }
  return flops * program.num_microbatches * program.mesh.num_ranks();
}

}  // namespace sextant
