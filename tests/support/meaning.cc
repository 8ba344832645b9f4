#include "tests/support/meaning.h"

#include <map>
#include <optional>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"
#include "sextant/base/str.h"

namespace sextant {
namespace {

using Symbol = std::uint64_t;

Symbol mix(Symbol x) {  // SplitMix64's finaliser
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
Symbol join(std::initializer_list<Symbol> parts) {
  Symbol out = 1;
  for (const Symbol p : parts) out = mix(out ^ mix(p));
  return out;
}
Symbol of(std::string_view text) { return hash_name(text); }

struct Rank {
  std::size_t at = 0;
  bool counted = false;
  std::optional<Symbol> norm, clip;
  // Boundary tensors by (unit, microbatch): made here, and received.
  std::map<std::pair<int, int>, Symbol> output, input_gradient, input, output_gradient;
  std::map<std::pair<int, int>, Symbol> kept, kept_for_w;
  std::vector<Symbol> weight, replica, gradient, shard;  // by bucket
  std::vector<int> gathered;                             // 0 not there, 1 on its way, 2 there
  std::vector<bool> reducing;
  std::map<int, bool> under_way;  // by instruction
  int faults = 0;                 // what a real run would notice or be undone by
};

class Interpreter {
 public:
  explicit Interpreter(const Program& program) : program_(program), ranks_(program.by_pp.size()) {
    for (std::size_t pp = 0; pp < ranks_.size(); ++pp) {
      Rank& r = ranks_[pp];
      for (const Bucket& b : list(pp).buckets) {
        r.weight.push_back(of("weight " + b.name));
        r.replica.push_back(r.weight.back());
      }
      r.gradient.resize(r.weight.size()), r.shard.resize(r.weight.size());
      r.gathered.assign(r.weight.size(), 0), r.reducing.assign(r.weight.size(), false);
    }
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t pp = 0; pp < ranks_.size(); ++pp)
        while (ranks_[pp].at < list(pp).code.size() && step(pp)) ++ranks_[pp].at, moved = true;
    }
  }

  std::map<std::string, Symbol> weights() const {
    std::map<std::string, Symbol> out;
    for (std::size_t pp = 0; pp < ranks_.size(); ++pp)
      for (std::size_t b = 0; b < ranks_[pp].weight.size(); ++b) {
        const auto [found, is_new] = out.try_emplace(list(pp).buckets[b].name, ranks_[pp].weight[b]);
        if (found->second != ranks_[pp].weight[b]) found->second = 0;  // holders that differ
      }
    return out;
  }

  std::string text() const {
    std::string out;
    for (std::size_t pp = 0; pp < ranks_.size(); ++pp) {
      const Rank& r = ranks_[pp];
      const std::size_t left = r.output.size() + r.input_gradient.size() + r.input.size() + r.output_gradient.size() +
                               r.kept.size() + r.kept_for_w.size() + r.under_way.size();
      std::size_t gathered = 0;
      for (const int g : r.gathered) gathered += g != 0;
      out += str("pp ", pp, " ends ", r.at == list(pp).code.size(), " left ", left, " gathered ", gathered, " faults ",
                 r.faults, " norm ", r.norm.value_or(0));
      for (const auto* values : {&r.weight, &r.replica})
        for (const Symbol w : *values) out += str(" ", w);
      out += "\n";
    }
    return out;
  }

 private:
  const RankProgram& list(std::size_t pp) const { return program_.by_pp[pp]; }
  int zero(std::size_t pp, std::size_t bucket) const { return program_.zero_of(list(pp).buckets[bucket]); }
  Symbol garbage(Rank& r) { return ++r.faults, mix(++garbage_ ^ of("garbage")); }

  Symbol take(Rank& r, std::map<std::pair<int, int>, Symbol>& from, int unit, int m) {
    const auto found = from.find({unit, m});
    if (found == from.end()) return garbage(r);
    const Symbol value = found->second;
    from.erase(found);
    return value;
  }

  // The neighbour of a unit on this coordinate, or -1: at the end of the model `is_end`.
  int neighbour(std::size_t pp, int unit, int direction, bool& is_end) const {
    const Stage& stage = list(pp).stage(unit);
    is_end = false;
    if (unit != (direction < 0 ? stage.first_unit : stage.last_unit)) return unit + direction;
    const int there = direction < 0 ? stage.before : stage.after;
    is_end = there < 0;
    if (there != static_cast<int>(pp)) return -1;
    for (const Stage& s : list(pp).stages)
      if (s.index == stage.index + direction && s.is_mirrored == stage.is_mirrored)
        return direction < 0 ? s.last_unit : s.first_unit;
    return -1;
  }

  void run_pass(std::size_t pp, Rank& r, const Instruction& i, Pass pass) {
    const int u = i.unit, m = i.microbatch;
    const Symbol name = join({of(list(pp).units[static_cast<std::size_t>(u)].name), static_cast<Symbol>(m)});
    Symbol weights = 0;
    for (const int b : list(pp).uses[static_cast<std::size_t>(u)].reads[static_cast<std::size_t>(pass)]) {
      const auto n = static_cast<std::size_t>(b);
      const bool there = zero(pp, n) != 3 || r.gathered[n] == 2;
      weights = join({weights, there ? (zero(pp, n) == 3 ? r.weight[n] : r.replica[n]) : garbage(r)});
    }
    bool at_start = false, at_end = false;
    const int before = neighbour(pp, u, -1, at_start), behind = neighbour(pp, u, +1, at_end);
    Symbol contribution = 0;
    if (pass == Pass::kF) {
      const Symbol x = at_start ? 0 : before >= 0 ? take(r, r.output, before, m) : take(r, r.input, u, m);
      if (r.kept.contains({u, m}) || r.kept_for_w.contains({u, m})) ++r.faults;
      r.kept[{u, m}] = join({name, x});
      if (!at_end) {
        if (r.output.contains({u, m})) ++r.faults;
        r.output[{u, m}] = join({of("F"), name, x, weights});
      }
    } else if (pass == Pass::kI) {
      const Symbol dy = at_end        ? (r.counted ? 7 : garbage(r))
                        : behind >= 0 ? take(r, r.input_gradient, behind, m)
                                      : take(r, r.output_gradient, u, m);
      const Symbol kept = take(r, r.kept, u, m);
      if (!at_start) {
        if (r.input_gradient.contains({u, m})) ++r.faults;
        r.input_gradient[{u, m}] = join({of("I"), name, kept, dy, weights});
      }
      r.kept_for_w[{u, m}] = join({kept, dy});
      contribution = join({of("vectors"), name, kept, dy, weights});
    } else {
      contribution = join({of("W"), name, take(r, r.kept_for_w, u, m)});
    }
    for (const int b : list(pp).uses[static_cast<std::size_t>(u)].writes[static_cast<std::size_t>(pass)]) {
      const auto n = static_cast<std::size_t>(b);
      r.gradient[n] += r.reducing[n] ? garbage(r) : join({contribution, of(list(pp).buckets[n].name)});
    }
  }

  bool start(Rank& r) {
    const int index = static_cast<int>(r.at);
    r.under_way[index] = true;
    return true;
  }

  using Tag = std::tuple<int, int, bool, int>;  // pass, receiving stage, direction, microbatch
  Tag tag(std::size_t pp, const Instruction& i) const {
    return {static_cast<int>(i.pass), receiving_stage(list(pp), i), list(pp).stage(i.unit).is_mirrored, i.microbatch};
  }

  bool step(std::size_t pp) {
    Rank& r = ranks_[pp];
    const Instruction& i = list(pp).code[r.at];
    const auto b = static_cast<std::size_t>(std::max(0, i.bucket));
    const std::pair<int, int> where{i.unit, i.microbatch};
    switch (i.code) {
      case Code::kCountTokens:
        r.counted = true;
        return true;
      case Code::kRun:
        if (r.norm) ++r.faults;
        run_pass(pp, r, i, i.pass);
        if (i.fused) run_pass(pp, r, i, Pass::kW);
        return true;
      case Code::kUnshard:
        if (r.gathered[b] != 0 || zero(pp, b) != 3) ++r.faults;
        r.gathered[b] = 1;
        return start(r);
      case Code::kReshard:
        if (r.gathered[b] != 2) ++r.faults;
        r.gathered[b] = 0;
        return true;
      case Code::kReduce:
        if (r.reducing[b]) ++r.faults;
        r.reducing[b] = true;
        if (zero(pp, b) == 0) {
          r.gradient[b] *= 3;  // the others' share
        } else {
          r.shard[b] += 3 * r.gradient[b];
          r.gradient[b] = 0;
        }
        return start(r);
      case Code::kReduceRest: {
        if (r.reducing[b]) ++r.faults;
        const Bucket& bucket = list(pp).buckets[b];
        Symbol& own = zero(pp, b) == 0 ? r.gradient[b] : r.shard[b];
        if (bucket.holders.size() > 1) {
          auto& brought = sums_[{bucket.name, count_[{pp, bucket.name}]}];
          brought[pp] = own;
          if (brought.size() < bucket.holders.size()) return false;
          Symbol sum = 0;
          for (const auto& [who, value] : brought) sum += value;
          own = sum;
          ++count_[{pp, bucket.name}];
        }
        for (const RestSum& rest : bucket.rest)
          if (rest.group != Group::kHolders) own *= 5;  // the others' share
        return true;
      }
      case Code::kSend: {
        auto& from = i.pass == Pass::kF ? r.output : r.input_gradient;
        const auto found = from.find(where);
        const Symbol value = found == from.end() ? garbage(r) : found->second;
        if (messages_.contains(tag(pp, i))) ++r.faults;
        messages_[tag(pp, i)] = value;
        return start(r);  // freed by its wait
      }
      case Code::kRecv:
        return start(r);
      case Code::kWait:
        return wait(pp, r, i);
      case Code::kGradNorm: {
        auto& brought = norms_[norm_count_[pp]];
        Symbol squares = 0;
        for (std::size_t n = 0; n < r.gradient.size(); ++n) {
          if (r.reducing[n]) ++r.faults;
          if (list(pp).buckets[n].holders.front() == static_cast<int>(pp))
            squares += mix(zero(pp, n) == 0 ? r.gradient[n] : r.shard[n]);
        }
        brought[pp] = squares;
        if (brought.size() < ranks_.size()) return false;
        Symbol sum = 0;
        for (const auto& [who, value] : brought) sum += value;
        r.norm = sum;
        ++norm_count_[pp];
        return true;
      }
      case Code::kDecide:
        r.clip = r.norm ? *r.norm : garbage(r);
        return true;
      case Code::kOptStep:
        for (std::size_t n = 0; n < r.weight.size(); ++n) {
          const Symbol g = zero(pp, n) == 0 ? r.gradient[n] : r.shard[n];
          r.weight[n] = join({r.weight[n], g, r.clip ? *r.clip : garbage(r)});
          if (!program_.hands_out(list(pp).buckets[n])) r.replica[n] = r.weight[n];
        }
        return true;
      case Code::kGatherParams:
        r.replica[b] = r.weight[b];
        return start(r);
    }
    return true;
  }

  bool wait(std::size_t pp, Rank& r, const Instruction& i) {
    const auto found = r.under_way.find(i.waits_for);
    if (found == r.under_way.end()) return ++r.faults, true;
    const Instruction& of = list(pp).code[static_cast<std::size_t>(i.waits_for)];
    const std::pair<int, int> where{of.unit, of.microbatch};
    if (of.code == Code::kRecv) {
      const auto message = messages_.find(tag(pp, of));
      if (message == messages_.end()) return false;
      auto& to = of.pass == Pass::kF ? r.input : r.output_gradient;
      if (to.contains(where)) ++r.faults;
      to[where] = message->second;
      messages_.erase(message);
    } else if (of.code == Code::kSend) {
      (of.pass == Pass::kF ? r.output : r.input_gradient).erase(where);
    } else if (of.code == Code::kUnshard) {
      r.gathered[static_cast<std::size_t>(of.bucket)] = 2;
    } else if (of.code == Code::kReduce) {
      r.reducing[static_cast<std::size_t>(of.bucket)] = false;
    }
    r.under_way.erase(found);
    return true;
  }

  const Program& program_;
  std::vector<Rank> ranks_;
  std::map<Tag, Symbol> messages_;
  std::map<std::pair<std::string, int>, std::map<std::size_t, Symbol>> sums_;
  std::map<std::pair<std::size_t, std::string>, int> count_;
  std::map<int, std::map<std::size_t, Symbol>> norms_;
  std::map<std::size_t, int> norm_count_;
  Symbol garbage_ = 0;
};

}  // namespace

std::string meaning_of(const Program& program) {
  Interpreter interpreter(program);
  interpreter.run();
  return interpreter.text();
}

std::map<std::string, std::uint64_t> weights_of(const Program& program) {
  Interpreter interpreter(program);
  interpreter.run();
  return interpreter.weights();
}

}  // namespace sextant
