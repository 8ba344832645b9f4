#include "sextant/runtime/exec/executor.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"

namespace sextant {
namespace {

constexpr int tag(MemoryTag t) { return static_cast<int>(t); }

// The loader's tensors: every data slot of the program, once by name.
std::map<std::string, TensorSpec> data_tensors(const Program& program, int pp) {
  std::map<std::string, TensorSpec> out;
  for (const Unit& unit : program.by_pp.at(static_cast<std::size_t>(pp)).units)
    for (const Slot& slot : unit.slots)
      if (slot.life == Life::kData) out.emplace(slot.spec.name, local(slot.spec, program.mesh));
  return out;
}

std::vector<int> ranks_where(const MeshSizes& mesh, const auto& belongs) {
  std::vector<int> ranks;
  for (int r = 0; r < mesh.num_ranks(); ++r)
    if (belongs(coordinates_of(r, mesh))) ranks.push_back(r);
  return ranks;
}

}  // namespace

std::string not_run(const Program& program) {
  if (program.mesh[Axis::kTp] == 1 && program.mesh[Axis::kCp] == 1 && program.by_pp.size() == 1 && program.zero == 0)
    return "";
  return "this runtime runs data-parallel plans; tp, cp, pp and zero can be checked, printed and simulated: to train, "
         "set "
         "tp = 1, cp = 1, pp = 1, zero = 0";
}

Bytes data_bytes(const Program& program, int pp) {
  Bytes sum;
  for (const auto& [name, spec] : data_tensors(program, pp))
    sum += aligned({spec.elements() * size_of(spec.dtype) * program.num_microbatches});
  return sum;
}

Bytes state_bytes_per_element(const Program& program, OptimizerKind kind) {
  return {state_values(kind) * size_of(program.dtype)};
}

Executor::Executor(const Program& program, const KernelTable& kernels, Communicator& world,
                   const ExecutorOptions& options)
    : program_(program),
      rank_(program.by_pp.at(0)),
      options_(options),
      memory_(plan_memory(program, 0, state_bytes_per_element(program, options_.optimizer.kind), data_bytes(program, 0),
                          options_.threads)),
      // Best fit leaves gaps; address space costs nothing until touched.
      pool_(world.memory(options_.memory.value > 0 ? options_.memory : memory_.peak * 2 + Bytes{1 << 26}),
            options_.poison),
      team_(options_.threads, options_.spin),
      world_(world) {
  check(world.size() == program.num_ranks(), "the world has as many ranks as the program");
  if (const std::string why = not_run(program); !why.empty())
    throw InvalidInput("this plan is not trained yet: " + why);

  const Coordinates own = own_ = coordinates_of(world.rank(), program.mesh);
  zero_ = world.group(ranks_where(
      program.mesh, [&](const Coordinates& c) { return c.tp == own.tp && c.dp_replicate == own.dp_replicate; }));
  replicas_ = world.group(ranks_where(program.mesh, [&](const Coordinates& c) {
    return c.tp == own.tp && c.cp == own.cp && c.dp_shard == own.dp_shard;
  }));
  data_group_ = world.group(ranks_where(program.mesh, [&](const Coordinates& c) { return c.tp == own.tp; }));
  everybody_ = world.group(ranks_where(program.mesh, [](const Coordinates&) { return true; }));

  const std::int64_t unit_bytes = size_of(program.dtype);
  for (std::size_t b = 0; b < rank_.buckets.size(); ++b) {
    const Bucket& bucket = rank_.buckets[b];
    BucketMemory memory;
    const Bytes bytes{bucket.elements * unit_bytes};
    // Padding between parameters travels with them, so it is written once.
    const auto take = [&](Bytes size, MemoryTag which) {
      Buffer buffer(pool_, size, tag(which));
      std::memset(buffer.data(), 0, static_cast<std::size_t>(size.value));
      return buffer;
    };
    memory.parameters = take(bytes, MemoryTag::kParameters);
    memory.gradients = take(bytes, MemoryTag::kGradients);
    if (const int values = state_values(options_.optimizer.kind))
      memory.state = take(bytes * values, MemoryTag::kOptimizer);
    // Of equal gradients on all ranks of the zero axes, each counts its share.
    const Slice share = slice_of(bucket.elements, zero_->size(), zero_->rank());
    for (const Placed& p : bucket.parameters) {
      placed_[p.spec.name] = {static_cast<int>(b), p.offset, p.size};
      memory.ranges.push_back({p.offset, p.offset + p.size, p.parameter.is_matrix});
      if (!counts_in_norm(bucket, p, 0, own)) continue;
      const Slice counted{std::max(p.offset, share.begin), std::min(p.offset + p.size, share.end)};
      if (counted.size() > 0) memory.counted.push_back({counted.begin, counted.end, p.parameter.is_matrix});
    }
    memory.site = Site("gradients of " + bucket.name);
    buckets_.push_back(std::move(memory));
  }
  for (const auto& [name, spec] : data_tensors(program, 0))
    data_[name] = {
        Buffer(pool_, {spec.elements() * size_of(spec.dtype) * program.num_microbatches}, tag(MemoryTag::kData)),
        spec.elements()};

  instances_.resize(static_cast<std::size_t>(program.num_microbatches));
  for (std::size_t u = 0; u < rank_.units.size(); ++u) {
    const Unit& unit = rank_.units[u];
    ReadyUnit ready;
    for (const Slot& slot : unit.slots) ready.specs.push_back(local(slot.spec, program.mesh));
    const auto prepare = [&](const TimedSteps& timed, std::vector<ReadyStep>& out) {
      for (const Step& step : timed.steps)
        out.push_back(
            {kernels.find(step.op->kind(), step.pass, program.dtype), str(step.op->kind(), " ", name_of(step.pass))});
    };
    prepare(memory_.units[u].f, ready.f);
    prepare(memory_.units[u].b, ready.b);
    prepare(memory_.units[u].i, ready.i);
    prepare(memory_.units[u].w, ready.w);
    units_.push_back(std::move(ready));
    per_step_.emplace_back(unit.slots.size());
    for (std::size_t s = 0; s < unit.slots.size(); ++s) {
      const Slot& slot = unit.slots[s];
      if (slot.life == Life::kResult) loss_ = Buffer(pool_, {8}, tag(MemoryTag::kGradients));
      void* data = slot.life == Life::kParameter  ? place(slot.spec.name, false)
                   : slot.life == Life::kGradient ? place(slot.spec.name.substr(2), true)  // "d." in front
                   : slot.life == Life::kResult   ? loss_.data()
                                                  : nullptr;
      if (!data) continue;
      per_step_[u][s] = &shared_[slot.spec.name];
      *per_step_[u][s] = {data, false};
    }
    for (auto& microbatch : instances_) microbatch.emplace_back(unit.slots.size());
  }
  pending_.resize(rank_.buckets.size());
}

void* Executor::place(const std::string& name, bool gradient) {
  const auto found = placed_.find(name);
  check(found != placed_.end(), "a parameter has a place in a bucket");
  const BucketMemory& bucket = buckets_[static_cast<std::size_t>(found->second.bucket)];
  return static_cast<char*>((gradient ? bucket.gradients : bucket.parameters).data()) +
         found->second.offset * size_of(program_.dtype);
}

void Executor::initialise() {
  for (const Bucket& bucket : rank_.buckets)
    for (const auto& [p, spec, offset, size] : bucket.parameters) {
      const RandomStream stream(options_.seed, Purpose::kInitialValue, hash_name(p.spec.name));
      const auto fill = [&](auto* values) {
        using T = std::remove_pointer_t<decltype(values)>;
        team_.split(p.spec.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            if (p.initial.kind == Initial::Kind::kNormal)
              values[i] = static_cast<T>(p.initial.deviation * stream.normal(static_cast<std::uint64_t>(i)));
            else
              values[i] = p.initial.kind == Initial::Kind::kOnes ? T{1} : T{0};
          }
        });
      };
      if (program_.dtype == DType::kF64)
        fill(parameter<double>(p.spec.name).data());
      else
        fill(parameter<float>(p.spec.name).data());
    }
}

Seconds Executor::now() const {
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

void Executor::end_event(const std::string& what, Bytes bytes) {
  const Seconds end = now();
  timeline_.events.push_back({what, event_start_, end, bytes});
  event_start_ = end;
}

Executor::Instance& Executor::instance(int unit, int slot, int microbatch) {
  Instance* per_step = per_step_[static_cast<std::size_t>(unit)][static_cast<std::size_t>(slot)];
  return per_step ? *per_step
                  : instances_[static_cast<std::size_t>(microbatch)][static_cast<std::size_t>(unit)]
                              [static_cast<std::size_t>(slot)];
}

void Executor::hand_over(int from_unit, int from_slot, int to_unit, int to_slot, int microbatch) {
  Instance& from = instance(from_unit, from_slot, microbatch);
  check(from.data && from.written, "a boundary tensor is made before it is used");
  instance(to_unit, to_slot, microbatch) = std::exchange(from, {});
}

Payload Executor::gradients_of(int bucket) {
  return {buckets_[static_cast<std::size_t>(bucket)].gradients.data(),
          rank_.buckets[static_cast<std::size_t>(bucket)].elements, program_.dtype};
}

void Executor::run(const Instruction& instruction) {
  const int u = instruction.unit, m = instruction.microbatch;
  const Unit& unit = rank_.units[static_cast<std::size_t>(u)];
  const bool forward = instruction.pass == Pass::kF;
  const TimedUnit& timed = memory_.units[static_cast<std::size_t>(u)];
  const TimedSteps& list = timed.of(instruction);
  const ReadyUnit& ready_unit = units_[static_cast<std::size_t>(u)];
  const auto& ready = &list == &timed.f   ? ready_unit.f
                      : &list == &timed.b ? ready_unit.b
                      : &list == &timed.i ? ready_unit.i
                                          : ready_unit.w;
  const auto& specs = units_[static_cast<std::size_t>(u)].specs;
  if (forward && unit.input >= 0)
    hand_over(u - 1, rank_.units[static_cast<std::size_t>(u) - 1].output, u, unit.input, m);
  if (instruction.pass == Pass::kI && unit.output_gradient >= 0)
    hand_over(u + 1, rank_.units[static_cast<std::size_t>(u) + 1].input_gradient, u, unit.output_gradient, m);

  std::vector<View> reads, writes;
  std::array<bool, 64> add{};
  const auto view = [&](int slot) {
    const Slot& s = unit.slots[static_cast<std::size_t>(slot)];
    if (s.life != Life::kData) return View{instance(u, slot, m).data, &specs[static_cast<std::size_t>(slot)]};
    const DataTensor& tensor = data_.at(s.spec.name);
    return View{static_cast<char*>(tensor.buffer.data()) + m * tensor.elements * size_of(s.spec.dtype),
                &specs[static_cast<std::size_t>(slot)]};
  };
  for (std::size_t s = 0; s < list.steps.size(); ++s) {
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
      Instance& target = instance(u, step.writes[w], m);
      add[w] = std::exchange(target.written, true);
    }
    ready[s].kernel({*step.op, step.pass, reads, writes, std::span(add).first(writes.size()), scratch.data(), team_,
                     options_.seed, 1.0 / static_cast<double>(std::max<std::int64_t>(1, result_.tokens))});
    for (const int slot : list.free[s]) {
      Instance& gone = instance(u, slot, m);
      pool_.free(gone.data);
      gone = {};
    }
    end_event(ready[s].what);
    world_.progress();
  }
}

StepResult Executor::step(double rate, bool wish_to_stop) {
  world_.enter(Phase::kComputing);
  result_ = {};
  rate_ = rate;
  clip_ = 1;
  timeline_.events.clear();
  begin_event();
  // Nothing is zeroed: the first contribution to a gradient is written, later ones are added.
  for (auto& [name, instance] : shared_) instance.written = false;

  for (const Instruction& instruction : rank_.code) {
    const auto b = static_cast<std::size_t>(std::max(0, instruction.bucket));
    const Bytes received_before = received().total();
    switch (instruction.code) {
      case Code::kCountTokens: {
        double valid = 0;
        for (int m = 0; m < program_.num_microbatches; ++m)
          for (const std::int32_t label : data<std::int32_t>("labels", m)) valid += label >= 0;
        data_group_->all_reduce({&valid, 1, DType::kF64}, "count of valid tokens").wait();
        result_.tokens = static_cast<std::int64_t>(valid);
        break;
      }
      case Code::kRun:
        run(instruction);
        continue;
      case Code::kReduce:
        pending_[b] = zero_->all_reduce(gradients_of(instruction.bucket), buckets_[b].site);
        break;
      case Code::kWait:
        pending_[static_cast<std::size_t>(rank_.code[static_cast<std::size_t>(instruction.waits_for)].bucket)].wait();
        break;
      case Code::kReduceRest:
        replicas_->all_reduce(gradients_of(instruction.bucket), buckets_[b].site).wait();
        break;
      case Code::kUnshard:
      case Code::kReshard:
      case Code::kSend:
      case Code::kRecv:
      case Code::kGatherParams:
        throw InternalError("refused by the constructor");
      case Code::kGradNorm: {
        double squares = 0;
        for (const BucketMemory& bucket : buckets_)
          squares += program_.dtype == DType::kF64
                         ? sum_of_squares(team_, bucket.counted, bucket.gradients.as<double>())
                         : sum_of_squares(team_, bucket.counted, bucket.gradients.as<float>());
        double sums[kNormValues] = {*loss_.as<double>(), wish_to_stop ? 1.0 : 0.0, squares};
        everybody_->all_reduce({sums, kNormValues, DType::kF64}, "loss, norm and wish to stop").wait();
        result_.grad_norm = std::sqrt(sums[2]);
        result_.loss = result_.tokens > 0 ? sums[0] / static_cast<double>(result_.tokens) : 0;
        result_.stop = sums[1] > 0;
        break;
      }
      case Code::kDecide:
        // Loss and norm are sums over all ranks, so every rank decides alike.
        if (result_.tokens == 0)
          result_.reason = "the step has no valid label";
        else if (!std::isfinite(result_.loss))
          result_.reason = str("the loss is ", std::isnan(result_.loss) ? "not a number" : "infinite");
        else if (!std::isfinite(result_.grad_norm))
          result_.reason = str("the gradient norm is ", std::isnan(result_.grad_norm) ? "not a number" : "infinite");
        result_.skipped = !result_.reason.empty();
        if (options_.optimizer.clip_norm > 0 && result_.grad_norm > options_.optimizer.clip_norm)
          clip_ = options_.optimizer.clip_norm / result_.grad_norm;
        break;
      case Code::kOptStep: {
        if (result_.skipped || rate_ < 0) break;
        result_.learning_rate = rate_;
        ++updates_;
        for (std::size_t n = 0; n < buckets_.size(); ++n) {
          BucketMemory& bucket = buckets_[n];
          const std::int64_t elements = rank_.buckets[n].elements;
          const auto update = [&](auto* parameters) {
            using T = std::remove_pointer_t<decltype(parameters)>;
            optimizer_step<T>(team_, options_.optimizer, rate_, updates_, clip_, bucket.ranges, parameters,
                              bucket.gradients.as<T>(), bucket.state.as<T>(),
                              bucket.state.as<T>() ? bucket.state.as<T>() + elements : nullptr);
          };
          if (program_.dtype == DType::kF64)
            update(bucket.parameters.as<double>());
          else
            update(bucket.parameters.as<float>());
        }
        break;
      }
    }
    end_event(std::string(name_of(instruction.code)), received().total() - received_before);
  }
  return result_;
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

StepBytes Executor::received() const {
  StepBytes bytes;
  bytes[Group::kZero] = zero_->received();
  bytes[Group::kReplicas] = replicas_->received();
  bytes[Group::kData] = data_group_->received();
  bytes[Group::kWorld] = everybody_->received();
  return bytes;
}

StepBytes Executor::promised() const { return promised_bytes(program_, 0, own_); }

}  // namespace sextant
