#include "sextant/program/examine.h"

#include <map>

#include "sextant/base/errors.h"
#include "sextant/program/memory.h"
#include "sextant/program/messages.h"

namespace sextant {
namespace {

constexpr std::size_t kMostListed = 20;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// One list by itself, from its first instruction to its last.
class ListExaminer {
 public:
  ListExaminer(const Program& program, int pp, std::vector<Violation>& out)
      : program_(program),
        rank_(program.by_pp[at(pp)]),
        pp_(pp),
        out_(out),
        num_microbatches_(at(program.num_microbatches)) {
    instances_.resize(rank_.units.size() * num_microbatches_);
    buckets_.resize(rank_.buckets.size());
    finished_.assign(rank_.code.size(), false);
  }

  void examine() {
    for (now_ = 0; now_ < static_cast<int>(rank_.code.size()); ++now_) follow(rank_.code[at(now_)]);
    now_ = -1;
    if (norms_ != 1) say("tail", str("GRAD_NORM stands ", norms_, " times; it is needed once"));
    if (decisions_ != 1) say("tail", str("DECIDE stands ", decisions_, " times; it is needed once"));
    if (updates_ != 1) say("tail", str("OPT_STEP stands ", updates_, " times; it is needed once"));
    for (int i = 0; i < static_cast<int>(rank_.code.size()); ++i)
      if (starts_work(rank_.code[at(i)].code) && !finished_[at(i)]) say("wait", name(i) + " is never waited for", i);
    for (const Stage& stage : rank_.stages)
      for (int u = stage.first_unit; u <= stage.last_unit; ++u)
        for (int m = stage.first_microbatch; m < stage.first_microbatch + stage.num_microbatches; ++m) finish(u, m);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const BucketState& s = buckets_[b];
      const std::string& bucket = rank_.buckets[b].name;
      if (s.is_gathered) say("gathered", str("the parameters of ", bucket, " are not freed"));
      if (is_summed(b) && s.has_new) say("reduced", str("the gradients of ", bucket, " are not reduced"));
      if (!rank_.buckets[b].rest.empty() && s.rests != 1)
        say("reduced", str("the sums of ", bucket, " that are left behind its reduction are made ", s.rests, " times"));
      if (program_.hands_out(rank_.buckets[b]) && s.hand_outs != 1)
        say("tail", str("the updated parameters of ", bucket, " are gathered ", s.hand_outs, " times"));
    }
  }

 private:
  bool is_summed(std::size_t bucket) const { return program_.shards_of(rank_.buckets[bucket]) > 1; }

  // A unit's pass or boundary tensor for one microbatch.
  struct Instance {
    bool f = false, i = false, w = false;
    enum Place : std::uint8_t { kNone, kComing, kHere, kTaken };
    Place output = kNone, input_gradient = kNone;  // what the unit makes
    Place input = kNone, output_gradient = kNone;  // what it is sent
  };
  struct BucketState {
    bool is_gathered = false, is_gathering = false;
    bool has_new = false, is_reducing = false;
    int reductions = 0, rests = 0, hand_outs = 0;
  };

  void say(const char* rule, const std::string& what, int instruction) {
    out_.push_back({pp_, instruction, rule, what});
  }
  void say(const char* rule, const std::string& what) { say(rule, what, now_); }
  std::string name(int i) const { return to_string(rank_, rank_.code[at(i)]); }
  std::string name() const { return name(now_); }
  Instance& instance(int unit, int microbatch) { return instances_[at(unit) * num_microbatches_ + at(microbatch)]; }
  std::string run_name(int u, int m, const char* pass) const {
    const Stage& stage = rank_.stage(u);
    return str(stage.index, stage.is_mirrored ? "'" : "", pass, m - stage.first_microbatch, " ",
               rank_.units[at(u)].name);
  }

  // The unit in front of (-1) or behind (+1) a unit on this coordinate; -1 if that is elsewhere or there is none.
  int neighbour(int u, int direction) const {
    const Stage& stage = rank_.stage(u);
    if (u != (direction < 0 ? stage.first_unit : stage.last_unit)) return u + direction;
    if ((direction < 0 ? stage.before : stage.after) != pp_) return -1;
    for (const Stage& other : rank_.stages)
      if (other.index == stage.index + direction && other.is_mirrored == stage.is_mirrored)
        return direction < 0 ? other.last_unit : other.first_unit;
    return -1;
  }
  int peer(int u, int direction) const { return direction < 0 ? rank_.stage(u).before : rank_.stage(u).after; }
  bool is_at_end(int u, int direction) const { return neighbour(u, direction) < 0 && peer(u, direction) < 0; }

  bool is_known(const Instruction& i) {
    const bool needs_unit = i.code == Code::kRun || i.code == Code::kSend || i.code == Code::kRecv;
    if (needs_unit) {
      if (i.unit < 0 || at(i.unit) >= rank_.units.size()) return say("once", "names a unit that is not here"), false;
      const Stage& s = rank_.stage(i.unit);
      if (i.microbatch < s.first_microbatch || i.microbatch >= s.first_microbatch + s.num_microbatches)
        return say("once", str(name(), ": a microbatch that is not this stage's")), false;
    }
    const bool needs_bucket = i.code == Code::kUnshard || i.code == Code::kReshard || i.code == Code::kReduce ||
                              i.code == Code::kReduceRest || i.code == Code::kGatherParams;
    if (needs_bucket && (i.bucket < 0 || at(i.bucket) >= buckets_.size()))
      return say("gathered", "names a bucket that is not here"), false;
    return true;
  }

  void follow(const Instruction& i) {
    if (!is_known(i)) return;
    switch (i.code) {
      case Code::kCountTokens:
        if (counts_++ > 0) say("tail", "COUNT_TOKENS stands twice");
        break;
      case Code::kRun:
        run(i);
        break;
      case Code::kUnshard: {
        BucketState& s = buckets_[at(i.bucket)];
        if (program_.zero_of(rank_.buckets[at(i.bucket)]) != 3)
          say("gathered", name() + ": these parameters are whole on every rank");
        if (s.is_gathered || s.is_gathering) say("gathered", name() + ": they are there already");
        if (updates_ > 0) say("tail", name() + " comes behind OPT_STEP");
        s.is_gathering = true;
        break;
      }
      case Code::kReshard: {
        BucketState& s = buckets_[at(i.bucket)];
        if (!s.is_gathered)
          say("gathered", name() + (s.is_gathering ? ": their gather is under way" : ": they are not there"));
        s.is_gathered = false;
        break;
      }
      case Code::kReduce:
        reduce(i);
        break;
      case Code::kReduceRest: {
        BucketState& s = buckets_[at(i.bucket)];
        if (rank_.buckets[at(i.bucket)].rest.empty()) say("reduced", name() + ": nothing is left to sum");
        if (is_summed(at(i.bucket)) && (s.has_new || s.is_reducing || s.reductions == 0))
          say("reduced", name() + ": the bucket is not reduced yet");
        if (norms_ > 0) say("tail", name() + " comes behind GRAD_NORM");
        ++s.rests;
        break;
      }
      case Code::kSend:
        send(i);
        break;
      case Code::kRecv:
        receive(i);
        break;
      case Code::kWait:
        wait(i);
        break;
      case Code::kGradNorm:
        ++norms_;
        for (std::size_t b = 0; b < buckets_.size(); ++b)
          if (is_summed(b) && (buckets_[b].has_new || buckets_[b].is_reducing))
            say("reduced", str("GRAD_NORM comes before the gradients of ", rank_.buckets[b].name, " are reduced"));
        break;
      case Code::kDecide:
        if (norms_ == 0) say("tail", "DECIDE comes before GRAD_NORM");
        ++decisions_;
        break;
      case Code::kOptStep:
        if (decisions_ == 0) say("tail", "OPT_STEP comes before DECIDE");
        ++updates_;
        break;
      case Code::kGatherParams: {
        if (!program_.hands_out(rank_.buckets[at(i.bucket)])) say("tail", name() + ": no other rank has updated these");
        if (updates_ == 0) say("tail", name() + " comes before OPT_STEP");
        ++buckets_[at(i.bucket)].hand_outs;
        break;
      }
    }
  }

  void run(const Instruction& i) {
    Instance& here = instance(i.unit, i.microbatch);
    if (counts_ == 0) say("order", name() + " comes before COUNT_TOKENS");
    if (norms_ > 0) say("order", name() + " comes behind GRAD_NORM");
    rank_.for_each_read(i, [&](int b) {
      const BucketState& s = buckets_[at(b)];
      if (program_.zero_of(rank_.buckets[at(b)]) == 3 && !s.is_gathered)
        say("gathered", str(name(), " reads the parameters of ", rank_.buckets[at(b)].name,
                            s.is_gathering ? ", whose gather is not waited for" : ", which are not gathered"));
    });
    switch (i.pass) {
      case Pass::kF:
        if (here.f) say("once", name() + " runs twice");
        take(i.unit, i.microbatch, -1);
        here.f = true;
        make(here.output, is_at_end(i.unit, +1));
        break;
      case Pass::kI:
        if (here.i) say("once", name() + " runs twice");
        if (!here.f) say("order", name() + " comes before its F");
        if (i.fused && here.w) say("once", name() + ": W has run already");
        take(i.unit, i.microbatch, +1);
        here.i = true;
        if (i.fused) here.w = true;
        make(here.input_gradient, is_at_end(i.unit, -1));
        break;
      case Pass::kW:
        if (here.w) say("once", name() + " runs twice");
        if (!here.i) say("order", name() + " comes before its I");
        here.w = true;
        break;
    }
    rank_.for_each_write(i, [&](int b) {
      BucketState& s = buckets_[at(b)];
      const std::string& bucket = rank_.buckets[at(b)].name;
      if (s.is_reducing) say("reduced", str(name(), " adds to the gradients of ", bucket, " while they are reduced"));
      if (s.reductions > 0 && !program_.reduces_each_microbatch())
        say("reduced", str(name(), " adds to the gradients of ", bucket, ", which were reduced for this step"));
      if (s.rests > 0) say("reduced", str(name(), " adds to the gradients of ", bucket, ", whose last sums are made"));
      s.has_new = true;
    });
  }

  void make(Instance::Place& place, bool nobody_wants_it) {
    place = nobody_wants_it ? Instance::kTaken : Instance::kHere;
  }

  // A run takes the boundary tensor that its neighbour made: forward from in front of it, backward from behind.
  void take(int u, int m, int direction) {
    if (is_at_end(u, direction)) return;
    const int from = neighbour(u, direction);
    Instance& own = instance(u, m);
    Instance::Place& place = from >= 0 ? (direction < 0 ? instance(from, m).output : instance(from, m).input_gradient)
                                       : (direction < 0 ? own.input : own.output_gradient);
    const char* what = direction < 0 ? "input" : "output's gradient";
    if (place == Instance::kNone)
      say("input", str(name(), ": its ", what, from >= 0 ? " is not made yet" : " is not received"));
    else if (place == Instance::kComing)
      say("input", str(name(), ": its ", what, " is not waited for"));
    else if (place == Instance::kTaken)
      say("input", str(name(), ": its ", what, " has been taken"));
    place = Instance::kTaken;
  }

  void reduce(const Instruction& i) {
    BucketState& s = buckets_[at(i.bucket)];
    if (!is_summed(at(i.bucket))) say("reduced", name() + ": one rank has nothing to sum");
    if (s.is_reducing) say("reduced", name() + ": its reduction is under way");
    if (!s.has_new) say("reduced", name() + ": nothing was added since its last reduction");
    if (s.rests > 0) say("reduced", name() + " comes behind REDUCE_REST");
    if (s.reductions > 0 && !program_.reduces_each_microbatch()) say("reduced", name() + ": reduced twice in a step");
    s.has_new = false, s.is_reducing = true;
    ++s.reductions;
  }

  void send(const Instruction& i) {
    const int direction = i.pass == Pass::kF ? +1 : -1;
    if (neighbour(i.unit, direction) >= 0 || peer(i.unit, direction) != i.peer || i.peer < 0)
      return say("message", name() + ": no neighbour is there that wants it");
    Instance& own = instance(i.unit, i.microbatch);
    Instance::Place& place = i.pass == Pass::kF ? own.output : own.input_gradient;
    if (place == Instance::kNone) say("message", name() + ": it is not made yet");
    if (place == Instance::kTaken) say("message", name() + ": it was sent already");
    place = Instance::kTaken;
  }

  void receive(const Instruction& i) {
    const int direction = i.pass == Pass::kF ? -1 : +1;
    if (neighbour(i.unit, direction) >= 0 || peer(i.unit, direction) != i.peer || i.peer < 0)
      return say("message", name() + ": no neighbour is there that makes it");
    Instance& own = instance(i.unit, i.microbatch);
    Instance::Place& place = i.pass == Pass::kF ? own.input : own.output_gradient;
    if (place != Instance::kNone) say("message", name() + ": it is received twice");
    place = Instance::kComing;
  }

  void wait(const Instruction& i) {
    if (i.waits_for < 0 || i.waits_for >= static_cast<int>(rank_.code.size()) ||
        !starts_work(rank_.code[at(i.waits_for)].code))
      return say("wait", str("WAIT names instruction ", i.waits_for, ", which starts nothing"));
    if (i.waits_for > now_) return say("wait", name() + " comes before its start");
    if (finished_[at(i.waits_for)]) return say("wait", name() + " stands twice");
    finished_[at(i.waits_for)] = true;
    const Instruction& of = rank_.code[at(i.waits_for)];
    if (of.code == Code::kUnshard) {
      BucketState& s = buckets_[at(of.bucket)];
      s.is_gathering = false, s.is_gathered = true;
    } else if (of.code == Code::kReduce) {
      buckets_[at(of.bucket)].is_reducing = false;
    } else if (of.code == Code::kRecv) {
      Instance& own = instance(of.unit, of.microbatch);
      Instance::Place& place = of.pass == Pass::kF ? own.input : own.output_gradient;
      if (place == Instance::kComing) place = Instance::kHere;
    }
  }

  void finish(int u, int m) {
    const Instance& s = instance(u, m);
    const auto miss = [&](const char* pass) { say("once", run_name(u, m, pass) + " does not run"); };
    if (!s.f) miss("F");
    if (!s.i) miss(s.w ? "I" : "B");
    if (s.i && !s.w) miss("W");
    if (s.output == Instance::kHere) say("message", run_name(u, m, "F") + ": nobody takes its output");
    if (s.input_gradient == Instance::kHere)
      say("message", run_name(u, m, "I") + ": nobody takes the gradient of its input");
    if (s.input == Instance::kHere || s.output_gradient == Instance::kHere)
      say("message", run_name(u, m, s.input == Instance::kHere ? "F" : "I") + ": what was received for it is not used");
  }

  const Program& program_;
  const RankProgram& rank_;
  const int pp_;
  std::vector<Violation>& out_;
  const std::size_t num_microbatches_;
  std::vector<Instance> instances_;  // [unit][microbatch]
  std::vector<BucketState> buckets_;
  std::vector<bool> finished_;  // by instruction that starts work
  int now_ = 0, counts_ = 0, norms_ = 0, decisions_ = 0, updates_ = 0;
};

// Senders and receivers of all lists side by side.
void examine_messages(const Program& program, std::vector<Violation>& out) {
  const MessageNumbers numbers(program);
  struct End {
    std::int32_t pp = -1, instruction = -1;
  };
  std::vector<End> senders(numbers.count()), receivers(numbers.count());
  const auto instruction = [&](const End& e) -> const Instruction& {
    return program.by_pp[at(e.pp)].code[at(e.instruction)];
  };
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const RankProgram& rank = program.by_pp[pp];
    for (std::size_t i = 0; i < rank.code.size(); ++i) {
      const Instruction& m = rank.code[i];
      if (m.code != Code::kSend && m.code != Code::kRecv) continue;
      const int stage = receiving_stage(rank, m);
      if (stage < 0 || stage >= program.num_stages) continue;  // told by its own list
      End& end = (m.code == Code::kSend ? senders : receivers)[numbers.of(rank, m)];
      if (end.pp >= 0)
        out.push_back(
            {static_cast<int>(pp), static_cast<int>(i), "message",
             str(to_string(rank, m), ": the tag is that of ", to_string(program.by_pp[at(end.pp)], instruction(end)),
                 " (pp ", end.pp, ", instruction ", end.instruction,
                 "); a receiving stage and microbatch have one activation and one gradient")});
      end = {static_cast<std::int32_t>(pp), static_cast<std::int32_t>(i)};
    }
  }
  const auto text = [&](const End& e) { return to_string(program.by_pp[at(e.pp)], instruction(e)); };
  for (std::size_t n = 0; n < numbers.count(); ++n) {
    const End &s = senders[n], &r = receivers[n];
    if (s.pp < 0 && r.pp < 0) continue;
    if (r.pp < 0 || s.pp < 0) {
      const End& e = r.pp < 0 ? s : r;
      out.push_back(
          {e.pp, e.instruction, "message", text(e) + (r.pp < 0 ? ": nobody receives it" : ": nobody sends it")});
      continue;
    }
    if (instruction(s).peer != r.pp || instruction(r).peer != s.pp) {
      out.push_back({s.pp, s.instruction, "message",
                     str(text(s), ", but pp ", r.pp, " has ", text(r), " (instruction ", r.instruction, ")")});
      continue;
    }
    const auto spec = [&](const End& e) {
      const RankProgram& rank = program.by_pp[at(e.pp)];
      return local(rank.units[at(instruction(e).unit)].slots[at(message_slot(rank, instruction(e)))].spec,
                   program.mesh);
    };
    const TensorSpec a = spec(s), b = spec(r);
    bool equal = a.dtype == b.dtype && a.dims.size() == b.dims.size();
    for (std::size_t d = 0; equal && d < a.dims.size(); ++d)
      equal = a.dims[d].dim == b.dims[d].dim && a.dims[d].size == b.dims[d].size;
    if (!equal)
      out.push_back({s.pp, s.instruction, "message",
                     str(text(s), " brings ", to_string(a, {}), ", its receiver takes ", to_string(b, {}))});
  }
}

// Sums over the coordinates that hold a bucket: in one order for all that share them.
void examine_collectives(const Program& program, std::vector<Violation>& out) {
  std::map<std::vector<int>, std::vector<std::string>> first;  // by holders: the order of the first of them
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    std::map<std::vector<int>, std::vector<std::string>> own;
    const RankProgram& rank = program.by_pp[pp];
    for (const Instruction& i : rank.code) {
      if (i.code != Code::kReduceRest || i.bucket < 0) continue;
      const Bucket& bucket = rank.buckets[at(i.bucket)];
      if (bucket.holders.size() > 1) own[bucket.holders].push_back(bucket.name);
    }
    for (const auto& [holders, names] : own) {
      const auto [found, is_new] = first.try_emplace(holders, names);
      if (!is_new && found->second != names)
        out.push_back({static_cast<int>(pp), -1, "collectives",
                       str("sums over the holders come as ", join(names, ", "), ", those of pp ", holders.front(),
                           " as ", join(found->second, ", "))});
    }
  }
}

}  // namespace

std::string to_string(const Violation& v) {
  return str("pp ", v.pp, v.instruction >= 0 ? str(", instruction ", v.instruction) : "", " [", v.rule, "]: ", v.what);
}

Examination examine(const Program& program) {
  Examination e;
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp)
    ListExaminer(program, static_cast<int>(pp), e.violations).examine();
  examine_messages(program, e.violations);
  examine_collectives(program, e.violations);
  if (!e.violations.empty()) return e;
  for (const Delivery delivery : {Delivery::kUnbounded, Delivery::kRendezvous})
    if (const auto stuck = find_deadlock(program, delivery)) {
      e.violations.push_back({stuck->pp, stuck->instruction, "deadlock",
                              str(delivery == Delivery::kUnbounded ? "ranks wait for each other's results: "
                                                                   : "a send waits for a receive that is not posted: ",
                                  stuck->what, "; put what one of them waits for earlier in the other's list")});
      return e;
    }
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const MemoryPlan plan = plan_memory(program, static_cast<int>(pp), {}, {}, 1);
    if (plan.at_start != plan.at_end)
      e.violations.push_back(
          {static_cast<int>(pp), -1, "memory",
           str("a step ends with ", (plan.at_end - plan.at_start).value, " B more than it began with")});
  }
  e.least_slots = least_slots(program);
  e.disorder = find_disorder(program);
  return e;
}

Examination require_sound(const Program& program) {
  Examination e = examine(program);
  if (e.violations.empty()) return e;
  std::vector<std::string> lines;
  for (const Violation& v : e.violations) {
    if (lines.size() == kMostListed) {
      lines.push_back(str("and ", e.violations.size() - kMostListed, " more"));
      break;
    }
    lines.push_back(to_string(v));
  }
  throw InvalidInput(str("this program is not sound:\n  - ", join(lines, "\n  - ")));
}

}  // namespace sextant
