#include "sextant/runtime/exec/executor.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"
#include "sextant/program/events.h"
#include "sextant/runtime/exec/conversion.h"

namespace sextant {
namespace {

constexpr int tag(MemoryTag t) { return static_cast<int>(t); }

// Ranks that hold the same slice of a weight.
std::int64_t copies_of(const TensorSpec& spec) {
  std::int64_t copies = 1;
  for (const Placement& p : spec.at) copies *= p.copies;
  return copies;
}

// The loader's tensors: every data slot of the coordinate, once by name and placement; and the labels, which everybody
// counts.
std::vector<TensorSpec> data_tensors(const Program& program, int pp) {
  std::vector<TensorSpec> out;
  const auto take = [&](const TensorSpec& spec) {
    for (const TensorSpec& seen : out)
      if (seen.name == spec.name && seen.at == spec.at) return;
    out.push_back(spec);
  };
  bool has_labels = false;
  const auto look = [&](const RankProgram& rank, bool only_labels) {
    for (const Unit& unit : rank.units)
      for (const Slot& slot : unit.slots) {
        const bool is_labels = slot.life == Life::kData && slot.spec.name == "labels";
        if (slot.life != Life::kData || (only_labels && (!is_labels || has_labels))) continue;
        has_labels |= is_labels;
        take(slot.spec);
      }
  };
  look(program.by_pp.at(static_cast<std::size_t>(pp)), false);
  for (const RankProgram& rank : program.by_pp) look(rank, true);
  return out;
}

// Sums inside kernels, over the axis that splits their tensors.
class Across final : public AcrossRanks {
 public:
  Across(Communicator& axis, const Site& site) : axis_(axis), site_(site) {}
  void sum(void* data, std::int64_t count, DType dtype) override {
    axis_.all_reduce({data, count, dtype}, site_).wait();
  }
  void greatest(void* data, std::int64_t count, DType dtype) override {
    axis_.all_reduce_max({data, count, dtype}, site_).wait();
  }

 private:
  Communicator& axis_;
  Site site_;
};

}  // namespace

Bytes data_bytes(const Program& program, int pp) {
  Bytes sum;
  for (const TensorSpec& spec : data_tensors(program, pp))
    sum += aligned(local_bytes(spec, program.mesh) * program.num_microbatches);
  return sum;
}

Bytes state_bytes_per_element(const Program& program, OptimizerKind kind) {
  // Narrow parameters have a master copy.
  const std::int64_t value = size_of(statistic_of(program.dtype));
  return {state_values(kind) * value + (program.dtype == statistic_of(program.dtype) ? 0 : value)};
}

Executor::Executor(const Program& program, const KernelTable& kernels, Communicator& world,
                   const ExecutorOptions& options)
    : program_(program),
      groups_(program, world),
      pp_(groups_.pp()),
      own_(groups_.at()),
      rank_(program.by_pp.at(static_cast<std::size_t>(pp_))),
      options_(options),
      memory_(plan_memory(program, pp_, state_bytes_per_element(program, options_.optimizer.kind),
                          data_bytes(program, pp_), options_.threads)),
      // Best fit leaves gaps; address space costs nothing until touched.
      pool_(world.memory(options_.memory.value > 0 ? options_.memory : memory_.peak * 2 + Bytes{1 << 26}),
            options_.poison),
      team_(options_.threads, options_.spin),
      world_(world),
      numbers_(program) {
  for (std::size_t b = 0; b < rank_.buckets.size(); ++b) {
    const Bucket& bucket = rank_.buckets[b];
    buckets_.emplace_back(program, bucket, pp_, own_, groups_[zero_group(bucket.grid)], pool_,
                          state_values(options_.optimizer.kind));
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i)
      placed_.emplace(bucket.parameters[i].spec.name,
                      PlacedAt{static_cast<int>(b), static_cast<int>(i), bucket.parameters[i].size,
                               LocalElements(bucket.parameters[i].spec, own_, program.mesh)});
  }
  for (const TensorSpec& spec : data_tensors(program, pp_)) {
    const std::int64_t elements = local_elements(spec, program.mesh), length = local_size(spec, 'S', program.mesh);
    data_.push_back({spec,
                     Buffer(pool_, local_bytes(spec, program.mesh) * program.num_microbatches, tag(MemoryTag::kData)),
                     elements, elements / length * spec.size_of_dim('S'),
                     pieces_of_dim(spec, 'S', own_, program.mesh, program.cp_slices), length});
  }

  instances_.resize(static_cast<std::size_t>(program.num_microbatches));
  for (std::size_t u = 0; u < rank_.units.size(); ++u) {
    const Unit& unit = rank_.units[u];
    ReadyUnit ready;
    for (const Slot& slot : unit.slots) {
      ready.specs.push_back(local(slot.spec, program.mesh));
      Rows rows;
      const bool is_weight = slot.life == Life::kParameter || slot.life == Life::kGradient;
      if (is_weight && !slot.spec.dims.empty())
        if (const DimSlice slice = slice_of_dim(slot.spec, slot.spec.dims[0].dim, own_, program.mesh);
            slice.size != slice.all)
          rows = {slice.first, slice.all, copies_of(slot.spec)};
      ready.rows.push_back(rows);
      int data = -1;
      for (std::size_t d = 0; slot.life == Life::kData && d < data_.size(); ++d)
        if (data_[d].spec.name == slot.spec.name && data_[d].spec.at == slot.spec.at) data = static_cast<int>(d);
      ready.data.push_back(data);
    }
    const auto prepare = [&](const TimedSteps& timed, std::vector<ReadyStep>& out) {
      for (const Step& step : timed.steps) {
        ReadyStep ready_step;
        ready_step.conversion = dynamic_cast<const Convert*>(step.op.get());
        if (ready_step.conversion) {
          const std::string& name = unit.slots[static_cast<std::size_t>(step.writes[0])].spec.name;
          ready_step.what = std::string(name_of(ready_step.conversion->collective()));
          ready_step.site = Site(name);
        } else {
          ready_step.kernel = kernels.find(step.op->kind(), step.pass, program.dtype);
          ready_step.what = str(step.op->kind(), " ", name_of(step.pass));
          ready_step.site = Site(str(unit.name, " ", ready_step.what));
        }
        out.push_back(std::move(ready_step));
      }
    };
    prepare(memory_.units[u]->f, ready.f);
    prepare(memory_.units[u]->b, ready.b);
    prepare(memory_.units[u]->i, ready.i);
    prepare(memory_.units[u]->w, ready.w);
    units_.push_back(std::move(ready));
    std::vector<Held>& held = held_.emplace_back(unit.slots.size());
    for (std::size_t s = 0; s < unit.slots.size(); ++s) {
      const Slot& slot = unit.slots[s];
      if (slot.life == Life::kResult) {
        loss_ = Buffer(pool_, {8}, tag(MemoryTag::kGradients));
        held[s].is_loss = true;
      }
      const bool is_gradient = slot.life == Life::kGradient;
      if (!is_gradient && slot.life != Life::kParameter) continue;
      const PlacedAt& p = placed_.at(is_gradient ? slot.spec.name.substr(2) : slot.spec.name);  // "d." in front
      held[s] = {p.bucket, p.index, is_gradient, false};
    }
    for (auto& microbatch : instances_) microbatch.emplace_back(unit.slots.size());
  }
}

void Executor::initialise() {
  for (const Bucket& bucket : rank_.buckets)
    for (const Placed& placed : bucket.parameters) {
      const Parameter& p = placed.parameter;
      const RandomStream stream(options_.seed, Purpose::kInitialValue, hash_name(p.spec.name));
      const auto value = [&](std::int64_t i) {
        if (p.initial.kind == Initial::Kind::kNormal)
          return p.initial.deviation * stream.normal(static_cast<std::uint64_t>(i));
        return p.initial.kind == Initial::Kind::kOnes ? 1.0 : 0.0;
      };
      if (program_.dtype == DType::kF64)
        for_each_value<double>(p.spec.name, [&](std::int64_t i, double& v) { v = value(i); });
      else
        for_each_value<float>(p.spec.name, [&](std::int64_t i, float& v) { v = static_cast<float>(value(i)); });
    }
}

Seconds Executor::now() const {
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

void Executor::end_event(const std::string& what, Bytes bytes) {
  const Seconds end = now();
  timeline_.events.push_back({.what = what, .start = event_start_, .end = end, .bytes = bytes, .rank = world_.rank()});
  event_start_ = end;
}

// An action begins, or goes on with its next unit.
void Executor::begin_run(const Instruction& run) {
  Event own = action_event(rank_, run);
  if (action_ >= 0 && timeline_.events[static_cast<std::size_t>(action_)].what == own.what) return;
  action_ = static_cast<int>(timeline_.events.size());
  own.start = own.end = event_start_, own.rank = world_.rank();
  if (!taken_.empty()) own.message = taken_.back();
  timeline_.events.push_back(std::move(own));
  taken_.clear();
}

void Executor::end_run(const Instruction& run, Seconds start) {
  timeline_.events[static_cast<std::size_t>(action_)].end = event_start_;
  Event own = unit_event(rank_, run);
  own.start = start, own.end = event_start_, own.rank = world_.rank();
  timeline_.events.push_back(std::move(own));
}

Executor::Instance& Executor::instance(int unit, int slot, int microbatch) {
  return instances_[static_cast<std::size_t>(microbatch)][static_cast<std::size_t>(unit)]
                   [static_cast<std::size_t>(slot)];
}

void Executor::hand_over(int from_unit, int from_slot, int to_unit, int to_slot, int microbatch) {
  Instance& from = instance(from_unit, from_slot, microbatch);
  check(from.data && from.written, "a boundary tensor is made before it is used");
  instance(to_unit, to_slot, microbatch) = std::exchange(from, {});
}

// The unit in front of (-1) or behind (+1) a unit if it is on this coordinate; else -1.
int Executor::neighbour(int unit, int direction) const {
  const Stage& stage = rank_.stage(unit);
  if (unit != (direction < 0 ? stage.first_unit : stage.last_unit)) return unit + direction;
  if ((direction < 0 ? stage.before : stage.after) != pp_) return -1;
  for (const Stage& other : rank_.stages)
    if (other.index == stage.index + direction && other.is_mirrored == stage.is_mirrored)
      return direction < 0 ? other.last_unit : other.first_unit;
  return -1;
}

void Executor::run(const Instruction& instruction) {
  const int u = instruction.unit, m = instruction.microbatch;
  const Unit& unit = rank_.units[static_cast<std::size_t>(u)];
  const bool forward = instruction.pass == Pass::kF;
  const TimedUnit& timed = *memory_.units[static_cast<std::size_t>(u)];
  const TimedSteps& list = timed.of(instruction);
  const ReadyUnit& ready_unit = units_[static_cast<std::size_t>(u)];
  const auto& ready = &list == &timed.f   ? ready_unit.f
                      : &list == &timed.b ? ready_unit.b
                      : &list == &timed.i ? ready_unit.i
                                          : ready_unit.w;
  const auto& specs = units_[static_cast<std::size_t>(u)].specs;
  if (forward && unit.input >= 0)
    if (const int before = neighbour(u, -1); before >= 0)
      hand_over(before, rank_.units[static_cast<std::size_t>(before)].output, u, unit.input, m);
  if (instruction.pass == Pass::kI && unit.output_gradient >= 0)
    if (const int behind = neighbour(u, +1); behind >= 0)
      hand_over(behind, rank_.units[static_cast<std::size_t>(behind)].input_gradient, u, unit.output_gradient, m);
  rank_.for_each_write(instruction, [&](int b) { store(b).prepare_gradients(); });

  std::vector<View> reads, writes;
  std::array<bool, 64> add{};
  const auto view = [&](int slot) {
    const auto at = static_cast<std::size_t>(slot);
    const Held& held = held_[static_cast<std::size_t>(u)][at];
    const Rows& rows = units_[static_cast<std::size_t>(u)].rows[at];
    const TensorSpec* spec = &specs[at];
    if (held.bucket >= 0) {
      BucketStore& bucket = store(held.bucket);
      return View{held.is_gradient ? bucket.gradient(held.index) : bucket.parameter(held.index), spec, rows.first,
                  rows.all, rows.copies};
    }
    if (held.is_loss) return View{loss_.data(), spec};
    const int data = units_[static_cast<std::size_t>(u)].data[at];
    if (data < 0) return View{instance(u, slot, m).data, spec};
    const DataTensor& tensor = data_[static_cast<std::size_t>(data)];
    return View{static_cast<char*>(tensor.buffer.data()) + m * tensor.elements * size_of(tensor.spec.dtype), spec};
  };
  struct Started {
    std::size_t step;
    Conversion conversion;
    Buffer scratch;
  };
  std::deque<Started> started;
  const auto free_slots = [&](std::size_t s) {
    for (const int slot : list.free[s]) {
      Instance& gone = instance(u, slot, m);
      pool_.free(gone.data);
      gone = {};
    }
  };
  // Collectives end where the list says, in the order in which they were started.
  const auto finish = [&](std::size_t before) {
    for (const std::size_t s : list.finish[before]) {
      const auto own = std::find_if(started.begin(), started.end(), [&](const Started& c) { return c.step == s; });
      own->conversion.finish();
      started.erase(own);
      free_slots(s);
      end_event(ready[s].what);
    }
  };
  for (std::size_t s = 0; s < list.steps.size(); ++s) {
    finish(s);
    const Step& step = list.steps[s];
    for (const int slot : list.allocate[s])
      instance(u, slot, m) = {pool_.allocate(slot_bytes(unit, slot, program_.mesh),
                                             tag(tag_of(unit.slots[static_cast<std::size_t>(slot)].life))),
                              false};
    Buffer scratch;
    if (list.scratch[s].value > 0) scratch = Buffer(pool_, list.scratch[s], tag(MemoryTag::kScratch));
    reads.clear(), writes.clear();
    check(step.writes.size() <= add.size(), "a step has few writes");
    for (const int slot : step.reads) {
      reads.push_back(view(slot));
      check(reads.back().data != nullptr, "a step reads what is there");
    }
    for (std::size_t w = 0; w < step.writes.size(); ++w) {
      writes.push_back(step.writes[w] >= 0 ? view(step.writes[w]) : View{});
      if (step.writes[w] < 0) continue;
      // A slot that a step writes twice (a tensor used twice by one op) takes the second as an addition.
      const Held& held = held_[static_cast<std::size_t>(u)][static_cast<std::size_t>(step.writes[w])];
      add[w] = held.bucket >= 0 ? store(held.bucket).add_contribution(held.index)
               : held.is_loss   ? std::exchange(loss_has_contribution_, true)
                                : std::exchange(instance(u, step.writes[w], m).written, true);
    }
    if (ready[s].conversion) {
      check(!add[0], "a conversion is the first to write");
      Conversion conversion(*ready[s].conversion, reads[0], writes[0], groups_.over(ready[s].conversion->axis),
                            scratch.data(), ready[s].site);
      if (list.is_started[s]) started.push_back({s, std::move(conversion), std::move(scratch)});
    } else {
      std::optional<Across> across;
      if (!step.inside.empty()) across.emplace(groups_.over(step.inside[0].axis), ready[s].site);
      ready[s].kernel({*step.op, step.pass, reads, writes, std::span(add).first(writes.size()), scratch.data(), team_,
                       options_.seed, 1.0 / static_cast<double>(std::max<std::int64_t>(1, result_.tokens)),
                       across ? &*across : nullptr});
    }
    scratch = {};
    if (!list.is_started[s]) free_slots(s);
    end_event(ready[s].what);
    world_.progress();
  }
  finish(list.steps.size());
}

double Executor::count_tokens() {
  double valid = 0;
  const auto labels =
      std::find_if(data_.begin(), data_.end(), [](const DataTensor& t) { return t.spec.name == "labels"; });
  check(labels != data_.end() && labels->spec.on(Axis::kTp) == replicate(), "every rank has its labels");
  // Where cp ranks have the same labels, one of them counts.
  if (labels->spec.on(Axis::kCp) != replicate() || own_.cp == 0) {
    const auto* values = labels->buffer.as<std::int32_t>();
    for (std::int64_t i = 0; i < labels->elements * program_.num_microbatches; ++i) valid += values[i] >= 0;
  }
  groups_[Group::kData].all_reduce({&valid, 1, DType::kF64}, "count of valid tokens").wait();
  return valid;
}

void Executor::reduce_rest(int bucket) {
  const BucketStore& b = store(bucket);
  for (const RestSum& sum : b.bucket().rest)
    groups_.of(b.bucket(), sum)
        .all_reduce(b.gradients_within(sum.begin, sum.end), Site("last sums of " + b.bucket().name))
        .wait();
}

// Loss and norm are sums over all ranks, so every rank decides alike.
void Executor::decide() {
  if (result_.tokens == 0)
    result_.reason = "the step has no valid label";
  else if (!std::isfinite(result_.loss))
    result_.reason = str("the loss is ", std::isnan(result_.loss) ? "not a number" : "infinite");
  else if (!std::isfinite(result_.grad_norm))
    result_.reason = str("the gradient norm is ", std::isnan(result_.grad_norm) ? "not a number" : "infinite");
  result_.skipped = !result_.reason.empty();
  if (options_.optimizer.clip_norm > 0 && result_.grad_norm > options_.optimizer.clip_norm)
    clip_ = options_.optimizer.clip_norm / result_.grad_norm;
}

StepResult Executor::step(double rate, bool wish_to_stop) {
  world_.enter(Phase::kComputing);
  result_ = {};
  rate_ = rate;
  clip_ = 1;
  timeline_.events.clear();
  action_ = -1;
  transfers_.clear(), taken_.clear();
  begin_event();
  // Nothing is zeroed: the first contribution to a gradient is written, later ones are added.
  for (BucketStore& bucket : buckets_) bucket.begin_step();
  if (loss_.data()) *loss_.as<double>() = 0;
  loss_has_contribution_ = false;

  for (std::size_t at = 0; at < rank_.code.size(); ++at) {
    const Instruction& instruction = rank_.code[at];
    const auto index = static_cast<std::int32_t>(at);
    const Bytes received_before = received().total();
    switch (instruction.code) {
      case Code::kCountTokens:
        result_.tokens = static_cast<std::int64_t>(count_tokens());
        break;
      case Code::kRun: {
        const Seconds start = event_start_;
        begin_run(instruction);
        run(instruction);
        end_run(instruction, start);
        continue;
      }
      case Code::kUnshard:
        pending_[index] = store(instruction.bucket).unshard();
        break;
      case Code::kReshard:
        store(instruction.bucket).reshard();
        break;
      case Code::kReduce:
        pending_[index] = store(instruction.bucket).reduce();
        break;
      case Code::kGatherParams:
        pending_[index] = store(instruction.bucket).gather_parameters();
        break;
      case Code::kSend:
        pending_[index] = groups_.pipeline().send(message(instruction), instruction.peer,
                                                  static_cast<int>(numbers_.of(rank_, instruction)),
                                                  Site(to_string(rank_, instruction)));
        break;
      case Code::kRecv: {
        const int slot = message_slot(rank_, instruction);
        const Unit& unit = rank_.units[static_cast<std::size_t>(instruction.unit)];
        instance(instruction.unit, slot, instruction.microbatch) = {
            pool_.allocate(slot_bytes(unit, slot, program_.mesh), tag(MemoryTag::kBoundary)), true};
        pending_[index] = groups_.pipeline().recv(message(instruction), instruction.peer,
                                                  static_cast<int>(numbers_.of(rank_, instruction)),
                                                  Site(to_string(rank_, instruction)));
        break;
      }
      case Code::kWait:
        finish(instruction.waits_for);
        break;
      case Code::kReduceRest:
        reduce_rest(instruction.bucket);
        break;
      case Code::kGradNorm: {
        // Equal on all tp ranks, the loss is brought by the first.
        double sums[kNormValues] = {loss_.data() && own_.tp == 0 ? *loss_.as<double>() : 0, wish_to_stop ? 1.0 : 0.0,
                                    0};
        for (const BucketStore& bucket : buckets_) sums[2] += bucket.sum_of_squares(team_);
        groups_[Group::kWorld].all_reduce({sums, kNormValues, DType::kF64}, "loss, norm and wish to stop").wait();
        result_.loss = result_.tokens > 0 ? sums[0] / static_cast<double>(result_.tokens) : 0;
        result_.stop = sums[1] > 0;
        result_.grad_norm = std::sqrt(sums[2]);
        break;
      }
      case Code::kDecide:
        decide();
        break;
      case Code::kOptStep:
        if (result_.skipped || rate_ < 0) break;
        result_.learning_rate = rate_;
        ++updates_;
        for (BucketStore& bucket : buckets_) bucket.update(team_, options_.optimizer, rate_, updates_, clip_);
        break;
    }
    const bool waits = instruction.code == Code::kWait;
    end_event(waits ? "WAIT " + std::string(name_of(rank_.code[static_cast<std::size_t>(instruction.waits_for)].code))
                    : std::string(name_of(instruction.code)),
              received().total() - received_before);
    if (waits) timeline_.events.back().kind = EventKind::kWait;
    if (instruction.code == Code::kSend) {
      const auto number = static_cast<std::int64_t>(numbers_.of(rank_, instruction));
      transfers_[number] = static_cast<int>(timeline_.events.size());
      timeline_.events.push_back({.what = to_string(rank_, instruction),
                                  .start = event_start_,
                                  .end = event_start_,
                                  .rank = world_.rank(),
                                  .stream = Stream::kMessages,
                                  .kind = EventKind::kTransfer,
                                  .message = number});
    }
  }
  return result_;
}

Payload Executor::message(const Instruction& instruction) {
  const int slot = message_slot(rank_, instruction);
  const TensorSpec& spec = units_[static_cast<std::size_t>(instruction.unit)].specs[static_cast<std::size_t>(slot)];
  return {instance(instruction.unit, slot, instruction.microbatch).data, spec.elements(), spec.dtype};
}

void Executor::finish(std::int32_t started) {
  const auto found = pending_.find(started);
  if (found != pending_.end()) {
    found->second.wait();
    pending_.erase(found);
  }
  const Instruction& of = rank_.code[static_cast<std::size_t>(started)];
  if (of.code == Code::kRecv) taken_.push_back(static_cast<std::int64_t>(numbers_.of(rank_, of)));
  if (of.code == Code::kSend)
    timeline_.events[static_cast<std::size_t>(transfers_.at(static_cast<std::int64_t>(numbers_.of(rank_, of))))].end =
        now();
  if (of.code == Code::kReduce) store(of.bucket).finish_reduce();
  if (of.code != Code::kSend) return;
  Instance& sent = instance(of.unit, message_slot(rank_, of), of.microbatch);
  pool_.free(sent.data);
  sent = {};
}

void Executor::free_instances() {
  for (auto& microbatch : instances_)
    for (auto& unit : microbatch)
      for (Instance& left : unit)
        if (left.data) pool_.free(std::exchange(left, {}).data);
}

View Executor::forward() {
  free_instances();  // what an earlier call kept: its logits, and what only a backward pass frees
  const int num_units = static_cast<int>(rank_.units.size());
  for (int u = 0; u < num_units; ++u)
    run({.code = Code::kRun, .pass = Pass::kF, .unit = static_cast<std::int16_t>(u), .microbatch = 0});
  const int output = rank_.units.back().output;
  check(output >= 0, "a model built to generate ends in logits");
  return {instance(num_units - 1, output, 0).data, &units_.back().specs[static_cast<std::size_t>(output)]};
}

StepBytes Executor::promised() const { return promised_bytes(program_, pp_, own_); }

}  // namespace sextant
