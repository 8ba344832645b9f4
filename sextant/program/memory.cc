#include "sextant/program/memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sextant/base/errors.h"

namespace sextant {

std::string_view name_of(MemoryTag tag) {
  constexpr std::string_view names[] = {"parameters",  "gathered",  "gradients", "optimizer", "data",
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

Stored stored_elements(const Program& program, const Bucket& bucket) {
  const std::int64_t whole = bucket.elements, shard = whole / program.shards_of(bucket);
  const int zero = program.zero_of(bucket);
  return {zero >= 3 ? shard : whole, zero >= 2 ? shard : whole, zero >= 1 ? shard : whole};
}

namespace {

// Who allocates and who frees each slot, over lists that run one after the other. What an earlier list did is not
// written down again.
void time_lists(const Unit& unit, TimedSteps& forward, const std::vector<TimedSteps*>& backward) {
  const auto is_instance = [&](int slot) {
    const Life life = unit.slots[static_cast<std::size_t>(slot)].life;
    return life == Life::kKept || life == Life::kTemporary || life == Life::kBoundary;
  };
  struct Use {
    TimedSteps* list;
    std::size_t step;
    std::pair<std::size_t, std::size_t> done;  // list, and when within it: behind step s, or in front of step s + 1
  };
  std::map<int, Use> first_write, last_use;
  std::vector<TimedSteps*> lists{&forward};
  lists.insert(lists.end(), backward.begin(), backward.end());
  for (std::size_t l = 0; l < lists.size(); ++l) {
    TimedSteps* const list = lists[l];
    const std::size_t n = list->steps.size();
    list->allocate.assign(n, {}), list->free.assign(n, {});
    list->is_started.assign(n, false), list->finish.assign(n + 1, {});
    const std::vector<std::size_t> done = done_before(list->steps);
    for (std::size_t s = 0; s < n; ++s) {
      const Step& step = list->steps[s];
      list->is_started[s] = starts_collective(step);
      if (list->is_started[s]) list->finish[done[s]].push_back(s);
      const Use use{list, s, {l, list->is_started[s] ? 2 * done[s] : 2 * s + 1}};
      const auto note = [&](int slot) {
        const auto [found, is_first] = last_use.try_emplace(slot, use);
        if (!is_first && found->second.done <= use.done) found->second = use;
      };
      for (const int slot : step.writes)
        if (slot >= 0 && is_instance(slot)) first_write.try_emplace(slot, use), note(slot);
      for (const int slot : step.reads)
        if (is_instance(slot)) note(slot);
    }
  }
  for (const auto& [slot, use] : first_write) {
    // Incoming boundary tensors are written elsewhere; only an op that joins gradients would write them here.
    if (slot != unit.input && slot != unit.output_gradient) use.list->allocate[use.step].push_back(slot);
  }
  for (const auto& [slot, use] : last_use)
    if (slot != unit.output && slot != unit.input_gradient) use.list->free[use.step].push_back(slot);
}

}  // namespace

TimedUnit time_unit(const Unit& unit, const MeshSizes& mesh, int threads) {
  TimedUnit timed;
  timed.f.steps = unit.f;
  timed.b.steps = unit.b();
  timed.i.steps = unit.i;
  timed.w.steps = unit.w;
  time_lists(unit, timed.f, {&timed.i, &timed.w});
  time_lists(unit, timed.f, {&timed.b});

  for (TimedSteps* list : {&timed.f, &timed.b, &timed.i, &timed.w}) {
    list->scratch.resize(list->steps.size());
    for (std::size_t s = 0; s < list->steps.size(); ++s) {
      const Step& step = list->steps[s];
      list->scratch[s] = aligned(step.op->scratch(step.pass, local_inputs(unit, step, mesh), threads));
    }
  }
  return timed;
}

namespace {

// Live bytes by tag, their sum, and its peak.
class Walk {
 public:
  Walk(const Program& program, int pp, MemoryPlan& plan)
      : program_(program), rank_(program.by_pp.at(static_cast<std::size_t>(pp))), plan_(plan) {
    has_whole_gradients_.assign(rank_.buckets.size(), false);
    for (const Unit& unit : rank_.units) {
      auto& sizes = bytes_.emplace_back();
      for (std::size_t s = 0; s < unit.slots.size(); ++s)
        sizes.push_back(slot_bytes(unit, static_cast<int>(s), program.mesh));
    }
  }

  void add(MemoryTag tag, Bytes bytes) {
    live_[static_cast<std::size_t>(tag)] += bytes;
    sum_ += bytes;
    greatest_ = std::max(greatest_, sum_);
  }
  void remove(MemoryTag tag, Bytes bytes) {
    live_[static_cast<std::size_t>(tag)] -= bytes;
    sum_ -= bytes;
  }
  // A new peak is written down with what `where` says.
  void look(const auto& where) {
    if (sum_ > plan_.peak) plan_.peak = sum_, plan_.at_peak = live_, plan_.peak_where = where();
  }

  void run(const Instruction& i) {
    if (program_.zero >= 2)
      rank_.for_each_write(i, [&](int b) {
        if (shards_gradients(b) && !has_whole_gradients_[at(b)])
          add(MemoryTag::kGradients, whole_gradients(b)), has_whole_gradients_[at(b)] = true;
      });
    const Unit& unit = rank_.units[at(i.unit)];
    const TimedSteps& list = plan_.units[at(i.unit)]->of(i);
    const auto is_done = [&](std::size_t s) {
      remove(MemoryTag::kScratch, list.scratch[s]);
      for (const int slot : list.free[s]) remove(tag(unit, slot), bytes_[at(i.unit)][at(slot)]);
    };
    for (std::size_t s = 0; s <= list.steps.size(); ++s) {
      for (const std::size_t collective : list.finish[s]) is_done(collective);
      if (s == list.steps.size()) break;
      for (const int slot : list.allocate[s]) add(tag(unit, slot), bytes_[at(i.unit)][at(slot)]);
      add(MemoryTag::kScratch, list.scratch[s]);
      look([&] {
        return str(unit.name, " ", list.steps[s].op->kind(), " ", name_of(list.steps[s].pass), " of microbatch ",
                   i.microbatch);
      });
      if (!list.is_started[s]) is_done(s);
    }
  }

  void follow(const Instruction& i) {
    const auto where = [&] { return to_string(rank_, i); };
    switch (i.code) {
      case Code::kRun:
        run(i);
        break;
      case Code::kUnshard:
        add(MemoryTag::kGathered, whole(i.bucket));
        break;
      case Code::kReshard:
        remove(MemoryTag::kGathered, whole(i.bucket));
        break;
      case Code::kRecv:
        add(MemoryTag::kBoundary, bytes_[at(i.unit)][at(message_slot(rank_, i))]);
        break;
      case Code::kWait: {
        const Instruction& of = rank_.code[at(i.waits_for)];
        if (of.code == Code::kSend) remove(MemoryTag::kBoundary, bytes_[at(of.unit)][at(message_slot(rank_, of))]);
        if (of.code == Code::kReduce && shards_gradients(of.bucket))
          remove(MemoryTag::kGradients, whole_gradients(of.bucket)), has_whole_gradients_[at(of.bucket)] = false;
        break;
      }
      default:
        break;
    }
    look(where);
  }

  Bytes take_greatest() { return std::exchange(greatest_, sum_); }
  Bytes sum() const { return sum_; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static MemoryTag tag(const Unit& unit, int slot) { return tag_of(unit.slots[at(slot)].life); }
  bool shards_gradients(int bucket) const { return program_.zero_of(rank_.buckets[at(bucket)]) >= 2; }
  Bytes whole(int bucket) const { return aligned({rank_.buckets[at(bucket)].elements * size_of(program_.dtype)}); }
  Bytes whole_gradients(int bucket) const {
    return aligned({rank_.buckets[at(bucket)].elements * size_of(program_.gradient_dtype)});
  }

  const Program& program_;
  const RankProgram& rank_;
  MemoryPlan& plan_;
  std::vector<std::vector<Bytes>> bytes_;  // [unit][slot]
  std::vector<bool> has_whole_gradients_;
  LiveBytes live_{};
  Bytes sum_, greatest_;
};

}  // namespace

MemoryPlan plan_memory(const Program& program, int pp, Bytes state_per_element, Bytes data, int threads,
                       const std::function<void(std::size_t, Bytes, Bytes)>& on_instruction) {
  MemoryPlan plan;
  const RankProgram& rank = program.by_pp.at(static_cast<std::size_t>(pp));
  std::map<int, std::shared_ptr<const TimedUnit>> known;
  for (const Unit& unit : rank.units) {
    std::shared_ptr<const TimedUnit> timed = unit.like >= 0 ? known[unit.like] : nullptr;
    if (!timed) timed = std::make_shared<const TimedUnit>(time_unit(unit, program.mesh, threads));
    if (unit.like >= 0) known[unit.like] = timed;
    plan.units.push_back(std::move(timed));
  }
  Walk walk(program, pp, plan);
  for (const Bucket& bucket : rank.buckets) {
    const Stored stored = stored_elements(program, bucket);
    walk.add(MemoryTag::kParameters, aligned({stored.parameters * size_of(program.dtype)}));
    walk.add(MemoryTag::kGradients, aligned({stored.gradients * size_of(program.gradient_dtype)}));
    if (state_per_element.value > 0) walk.add(MemoryTag::kOptimizer, aligned(state_per_element * stored.state));
  }
  for (const Unit& unit : rank.units)
    for (std::size_t s = 0; s < unit.slots.size(); ++s)
      if (unit.slots[s].life == Life::kResult)
        walk.add(MemoryTag::kGradients, slot_bytes(unit, static_cast<int>(s), program.mesh));
  walk.add(MemoryTag::kData, data);
  walk.look([] { return std::string("at the start"); });
  plan.at_start = walk.sum();
  for (std::size_t i = 0; i < rank.code.size(); ++i) {
    walk.follow(rank.code[i]);
    if (on_instruction) on_instruction(i, walk.take_greatest(), walk.sum());
  }
  plan.at_end = walk.sum();
  return plan;
}

}  // namespace sextant
