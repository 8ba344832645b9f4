#include "sextant/program/program.h"

#include <map>
#include <tuple>

#include "sextant/base/errors.h"
#include "sextant/model/abstract.h"
#include "sextant/plan/pipeline_parallel.h"
#include "sextant/program/passes.h"

namespace sextant {

std::string_view name_of(Code code) {
  constexpr std::string_view names[] = {"COUNT_TOKENS", "RUN",      "UNSHARD",      "RESHARD", "REDUCE",
                                        "REDUCE_REST",  "SEND",     "RECV",         "WAIT",    "GRAD_NORM",
                                        "DECIDE",       "OPT_STEP", "GATHER_PARAMS"};
  return names[static_cast<std::size_t>(code)];
}

void place_stages(Program& program, const Schedule& schedule, const std::vector<int>& stage_sizes) {
  program.num_microbatches = schedule.num_microbatches;
  program.num_stages = schedule.num_stages;
  program.by_pp.resize(static_cast<std::size_t>(schedule.num_ranks));
  // holder[2 stage + mirrored]: the coordinate that has it.
  std::vector<int> holder(static_cast<std::size_t>(2 * schedule.num_stages), -1);
  for (std::size_t pp = 0; pp < schedule.by_rank.size(); ++pp)
    for (const Action& a : schedule.by_rank[pp])
      holder[static_cast<std::size_t>(2 * a.stage + a.mirrored)] = static_cast<int>(pp);
  for (int mirrored = 0; mirrored < 2; ++mirrored)
    for (int s = 0; s < schedule.num_stages; ++s) {
      const auto held_by = [&](int stage) {
        return stage < 0 || stage >= schedule.num_stages ? -1 : holder[static_cast<std::size_t>(2 * stage + mirrored)];
      };
      if (held_by(s) < 0) continue;
      RankProgram& rank = program.by_pp[static_cast<std::size_t>(held_by(s))];
      const int first = static_cast<int>(rank.units.size()), size = stage_sizes[static_cast<std::size_t>(s)];
      rank.units.resize(rank.units.size() + static_cast<std::size_t>(size));
      rank.stage_of.resize(rank.units.size(), static_cast<int>(rank.stages.size()));
      const int per_stage = schedule.microbatches_of_stage();
      rank.stages.push_back(
          {s, mirrored == 1, first, first + size - 1, mirrored * per_stage, per_stage, held_by(s - 1), held_by(s + 1)});
    }
}

namespace {

void make_code(Program& program, const Schedule& schedule, int live_units) {
  std::vector<Tickets> tickets(program.by_pp.size());
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    schedule_units(program.by_pp[pp], schedule.by_rank[pp]);
    shard(program, program.by_pp[pp], live_units, tickets[pp]);
  }
  communicate(program, tickets);
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    add_tail(program, program.by_pp[pp], tickets[pp]);
    link(program.by_pp[pp]);
  }
}

// Whether neighbouring stages exchange slices over tp: only if the slices are equal.
bool crosses_in_slices(const std::vector<Layer>& layers, const Plan& plan) {
  const Layer& layer = layers.back();
  return plan.border == StageBorder::kSlice && plan.tp > 1 && !plan.sequence_parallel && layer.input >= 0 &&
         layer.tensors[static_cast<std::size_t>(layer.input)].spec.size_of_dim('S') % (plan.cp * plan.tp) == 0;
}

// Lowers layers that differ in their names only once for each way to split them.
class Lowering {
 public:
  Unit lower_layer(const Layer& layer, const LayerSplit& split) {
    if (layer.like < 0) return lower(layer, split);
    const Key key{layer.like, split.recompute.any(), split.slice_input, split.slice_output};
    const auto found = known_.find(key);
    if (found != known_.end()) return named_like(found->second, layer);
    Unit unit = lower(layer, split);
    unit.like = static_cast<int>(known_.size());
    return known_.emplace(key, std::move(unit)).first->second;
  }

 private:
  using Key = std::tuple<int, bool, bool, bool>;

  static Unit named_like(const Unit& first, const Layer& layer) {
    Unit unit = first;
    unit.name = layer.name, unit.layer = layer.index;
    const std::string from = first.name + ".", to = layer.name + ".";
    for (Slot& slot : unit.slots)
      if (const auto at = slot.spec.name.find(from); at != std::string::npos)
        slot.spec.name.replace(at, from.size(), to);
    unit.parameters.clear();
    for (const Parameter& p : layer.parameters)
      if (!p.is_shared) unit.parameters.push_back(p);
    return unit;
  }

  std::map<Key, Unit> known_;
};

}  // namespace

Program build_program(const Model& model, const Plan& plan) { return build_program(model, plan, schedule_of(plan)); }

Program build_program(const Model& model, const Plan& plan, const Schedule& schedule) {
  return build_program(model.layers, plan, schedule);
}

Program build_program(const std::vector<Layer>& layers, const Plan& plan, const Schedule& schedule) {
  Program program{.mesh = mesh_of(plan), .dtype = layers.at(0).parameters.at(0).spec.dtype};
  program.gradient_dtype = program.dtype == DType::kBf16 ? plan.gradient_dtype : program.dtype;
  const std::vector<int> sizes = stage_sizes(plan, static_cast<int>(layers.size()), schedule.num_stages);
  program.zero = plan.zero;
  program.reduce = plan.reduce;
  program.cp_slices = plan.cp_slices;
  place_stages(program, schedule, sizes);
  std::vector<int> first_layer(sizes.size(), 0);
  for (std::size_t s = 1; s < sizes.size(); ++s) first_layer[s] = first_layer[s - 1] + sizes[s - 1];

  const bool slices = crosses_in_slices(layers, plan);
  Lowering lowering;
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    RankProgram& rank = program.by_pp[pp];
    const auto elsewhere = [&](int coordinate) { return coordinate >= 0 && coordinate != static_cast<int>(pp); };
    for (const Stage& stage : rank.stages) {
      int of_stage = 0;  // transformer layers so far
      for (int u = stage.first_unit; u <= stage.last_unit; ++u) {
        const Layer& layer =
            layers[static_cast<std::size_t>(first_layer[static_cast<std::size_t>(stage.index)] + u - stage.first_unit)];
        LayerSplit split = split_of(plan);
        const bool is_layer = layer.index >= 0;
        if (is_layer && (plan.recompute.layers < 0 || of_stage < plan.recompute.layers))
          split.recompute = plan.recompute;
        of_stage += is_layer;
        split.slice_input = slices && u == stage.first_unit && elsewhere(stage.before);
        split.slice_output = slices && u == stage.last_unit && elsewhere(stage.after);
        rank.units[static_cast<std::size_t>(u)] = lowering.lower_layer(layer, split);
      }
    }
  }
  const bool unit_by_unit = program.zero == 3 && plan.bucket.value == 0;
  make_buckets(program, unit_by_unit ? Bytes{1} : plan.bucket);
  // A unit with experts has a bucket of each grid.
  bool has_shards = false;
  int buckets_of_unit = 1;
  for (const RankProgram& rank : program.by_pp)
    for (const Bucket& bucket : rank.buckets) {
      has_shards |= program.shards_of(bucket) > 1;
      if (bucket.grid == Grid::kExpert) buckets_of_unit = 2;
    }
  if (!has_shards) program.zero = 0;
  make_code(program, schedule, plan.live_units * buckets_of_unit);
  return program;
}

Program build_program(const Schedule& schedule, int units_of_stage) {
  return build_program(abstract_layers(schedule.num_stages * units_of_stage), Plan{}, schedule);
}

bool counts_in_norm(const Bucket& bucket, const Placed& parameter, int pp, const Coordinates& at,
                    const MeshSizes& mesh) {
  const Axis axis = axes_of(bucket.grid).back();
  const Placement inner = parameter.spec.on(axis);
  const int place = place_on(axis, at, mesh);
  const bool first_copy = inner.kind == Kind::kShard ? place % inner.copies == 0 : place == 0;
  return first_copy && at.dp_replicate == 0 && bucket.holders.front() == pp;
}

int message_slot(const RankProgram& rank, const Instruction& message) {
  const Unit& unit = rank.units[static_cast<std::size_t>(message.unit)];
  const bool sends = message.code == Code::kSend;
  if (message.pass == Pass::kF) return sends ? unit.output : unit.input;
  return sends ? unit.input_gradient : unit.output_gradient;
}

int receiving_stage(const RankProgram& rank, const Instruction& message) {
  const int own = rank.stage(message.unit).index;
  if (message.code == Code::kRecv) return own;
  return message.pass == Pass::kF ? own + 1 : own - 1;
}

}  // namespace sextant
