#include "sextant/program/memory.h"

#include <algorithm>
#include <map>

#include "sextant/base/errors.h"

namespace sextant {

std::string_view name_of(MemoryTag tag) {
  constexpr std::string_view names[] = {"parameters",  "gradients", "optimizer", "data",
                                        "activations", "temporary", "boundary",  "scratch"};
  return names[static_cast<std::size_t>(tag)];
}

MemoryTag tag_of(Life life) {
  switch (life) {
    case Life::kParameter:
      return MemoryTag::kParameters;
    case Life::kGradient:
    case Life::kResult:
      return MemoryTag::kGradients;
    case Life::kKept:
      return MemoryTag::kActivations;
    case Life::kTemporary:
      return MemoryTag::kTemporary;
    case Life::kBoundary:
      return MemoryTag::kBoundary;
    case Life::kData:
      return MemoryTag::kData;
  }
  return MemoryTag::kTemporary;
}

Bytes slot_bytes(const Unit& unit, int slot, const MeshSizes& mesh) {
  return aligned(local_bytes(unit.slots[static_cast<std::size_t>(slot)].spec, mesh));
}

TimedUnit time_unit(const Unit& unit, const MeshSizes& mesh, int threads) {
  TimedUnit timed;
  timed.f.steps = unit.f;
  timed.b.steps = unit.b();
  const auto is_instance = [&](int slot) {
    const Life life = unit.slots[static_cast<std::size_t>(slot)].life;
    return life == Life::kKept || life == Life::kTemporary || life == Life::kBoundary;
  };
  struct Use {
    TimedSteps* list;
    std::size_t step;
  };
  std::map<int, Use> first_write, last_use;
  for (TimedSteps* list : {&timed.f, &timed.b}) {
    const std::size_t n = list->steps.size();
    list->allocate.resize(n), list->free.resize(n), list->scratch.resize(n);
    for (std::size_t s = 0; s < n; ++s) {
      const Step& step = list->steps[s];
      for (const int slot : step.writes)
        if (slot >= 0 && is_instance(slot))
          first_write.try_emplace(slot, Use{list, s}), last_use.insert_or_assign(slot, Use{list, s});
      for (const int slot : step.reads)
        if (is_instance(slot)) last_use.insert_or_assign(slot, Use{list, s});
    }
  }
  for (const auto& [slot, use] : first_write) {
    // Incoming boundary tensors are written elsewhere; only an op that joins gradients would write them here.
    if (slot != unit.input && slot != unit.output_gradient) use.list->allocate[use.step].push_back(slot);
  }
  for (const auto& [slot, use] : last_use)
    if (slot != unit.output && slot != unit.input_gradient) use.list->free[use.step].push_back(slot);

  // Scratch is declared by local input sizes. A backward step reads a subset of the inputs, so its op's specs are
  // taken from the forward list, or from its own reads where the op has no forward step (a head).
  std::map<const Op*, std::vector<TensorSpec>> inputs;
  for (const Step& step : timed.f.steps)
    for (const int slot : step.reads)
      inputs[step.op.get()].push_back(local(unit.slots[static_cast<std::size_t>(slot)].spec, mesh));
  for (TimedSteps* list : {&timed.f, &timed.b})
    for (std::size_t s = 0; s < list->steps.size(); ++s) {
      const Step& step = list->steps[s];
      std::vector<TensorSpec> in = inputs[step.op.get()];
      if (in.empty())
        for (const int slot : step.reads) in.push_back(local(unit.slots[static_cast<std::size_t>(slot)].spec, mesh));
      list->scratch[s] = aligned(step.op->scratch(step.pass, in, threads));
    }
  return timed;
}

MemoryPlan plan_memory(const Program& program, Bytes state_per_element, Bytes data, int threads) {
  MemoryPlan plan;
  const RankProgram& rank = program.by_pp.at(0);
  std::array<Bytes, kNumMemoryTags> live{};
  const auto at = [&](MemoryTag tag) -> Bytes& { return live[static_cast<std::size_t>(tag)]; };
  for (const Unit& unit : rank.units) plan.units.push_back(time_unit(unit, program.mesh, threads));
  for (const Bucket& bucket : rank.buckets) {
    const Bytes bytes = aligned({bucket.elements * size_of(program.dtype)});
    at(MemoryTag::kParameters) += bytes;
    at(MemoryTag::kGradients) += bytes;
    if (state_per_element.value > 0) at(MemoryTag::kOptimizer) += aligned(state_per_element * bucket.elements);
  }
  for (const Unit& unit : rank.units)
    for (std::size_t s = 0; s < unit.slots.size(); ++s)
      if (unit.slots[s].life == Life::kResult)
        at(MemoryTag::kGradients) += slot_bytes(unit, static_cast<int>(s), program.mesh);
  at(MemoryTag::kData) += data;

  const auto look = [&](const std::string& where) {
    Bytes sum;
    for (const Bytes b : live) sum += b;
    if (sum > plan.peak) plan.peak = sum, plan.at_peak = live, plan.peak_where = where;
  };
  look("at the start");
  for (const Instruction& instruction : rank.code) {
    if (instruction.code != Code::kRun) continue;
    const Unit& unit = rank.units[static_cast<std::size_t>(instruction.unit)];
    const TimedUnit& timed = plan.units[static_cast<std::size_t>(instruction.unit)];
    const TimedSteps& list = instruction.pass == Pass::kF ? timed.f : timed.b;
    for (std::size_t s = 0; s < list.steps.size(); ++s) {
      for (const int slot : list.allocate[s])
        at(tag_of(unit.slots[static_cast<std::size_t>(slot)].life)) += slot_bytes(unit, slot, program.mesh);
      at(MemoryTag::kScratch) += list.scratch[s];
      look(str(unit.name, " ", list.steps[s].op->kind(), " ", name_of(list.steps[s].pass), " of microbatch ",
               instruction.microbatch));
      at(MemoryTag::kScratch) -= list.scratch[s];
      for (const int slot : list.free[s])
        at(tag_of(unit.slots[static_cast<std::size_t>(slot)].life)) -= slot_bytes(unit, slot, program.mesh);
    }
  }
  return plan;
}

}  // namespace sextant
