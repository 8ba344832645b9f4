#include "sextant/sim/virtual_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sextant/base/errors.h"
#include "sextant/program/deadlock.h"
#include "sextant/program/messages.h"

namespace sextant {
namespace {

constexpr Seconds kNever{-1};

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Runner {
 public:
  Runner(const Program& program, const Prices& prices) : program_(program), prices_(prices), numbers_(program) {
    messages_.resize(numbers_.count());
    ranks_.resize(program.by_pp.size());
    run_.by_pp.resize(program.by_pp.size());
    run_.latency = prices.latency;
    for (std::size_t pp = 0; pp < ranks_.size(); ++pp) {
      run_.by_pp[pp].resize(program.by_pp[pp].code.size());
      ranks_[pp].ends.resize(program.by_pp[pp].code.size());
    }
  }

  VirtualRun run() {
    for (std::size_t pp = ranks_.size(); pp-- > 0;) ready_.push_back(static_cast<int>(pp));
    while (!ready_.empty()) {
      const int pp = ready_.back();
      ready_.pop_back();
      advance(pp);
    }
    for (std::size_t pp = 0; pp < ranks_.size(); ++pp) {
      if (ranks_[pp].at < program_.by_pp[pp].code.size()) {
        const auto stuck = find_deadlock(program_, Delivery::kRendezvous);
        throw InvalidInput("the program does not end: " + (stuck ? stuck->what : "a message is missing"));
      }
      run_.makespan = std::max(run_.makespan, ranks_[pp].now);
    }
    return std::move(run_);
  }

 private:
  struct Message {
    Seconds sent = kNever, posted = kNever;
    std::int32_t waiter = -1;
    bool travels() const { return sent != kNever && posted != kNever; }
    Seconds start() const { return std::max(sent, posted); }
  };
  struct Rank {
    std::size_t at = 0;
    Seconds now;
    Seconds collectives;        // when the last collective that was started ends
    std::vector<Seconds> ends;  // of what instructions started, by instruction
  };
  struct Meeting {
    std::vector<int> here;
    Seconds last;
  };

  void advance(int pp) {
    const RankProgram& list = program_.by_pp[at(pp)];
    Rank& rank = ranks_[at(pp)];
    std::vector<Span>& spans = run_.by_pp[at(pp)];
    const auto& times = prices_.units[at(pp)];
    for (; rank.at < list.code.size(); ++rank.at) {
      const Instruction& i = list.code[rank.at];
      Seconds end = rank.now;
      switch (i.code) {
        case Code::kRun: {
          end += times[at(i.unit)][sextant::price_of(i)];
          if (const Seconds beside = std::min(end, rank.collectives) - rank.now; beside.value > 0)
            end += {beside.value * prices_.interference};
          break;
        }
        case Code::kUnshard:
        case Code::kGatherParams:
          end = start_collective(rank, price_of(pp, i.bucket).gather);
          break;
        case Code::kReduce:
          end = start_collective(rank, price_of(pp, i.bucket).reduce);
          break;
        case Code::kCountTokens:
          end += prices_.count;
          break;
        case Code::kOptStep:
          if (!prices_.optimizer.empty()) end += prices_.optimizer[at(pp)];
          break;
        case Code::kSend:
        case Code::kRecv: {
          Message& m = messages_[numbers_.of(list, i)];
          (i.code == Code::kSend ? m.sent : m.posted) = rank.now;
          if (m.waiter >= 0 && m.travels()) ready_.push_back(std::exchange(m.waiter, -1));
          break;
        }
        case Code::kWait: {
          const Instruction& of = list.code[at(i.waits_for)];
          if (of.code != Code::kSend && of.code != Code::kRecv) {
            end = std::max(end, rank.ends[at(i.waits_for)]);
            break;
          }
          Message& m = messages_[numbers_.of(list, of)];
          if (!m.travels()) {
            m.waiter = pp;
            return;
          }
          end = std::max(end, m.start() + prices_.latency);
          break;
        }
        case Code::kReduceRest: {
          const Bucket& bucket = list.buckets[at(i.bucket)];
          // Behind the reduction that it finishes, on the same stream.
          end += price_of(pp, i.bucket).rest;
          if (bucket.holders.size() > 1 && !meet(pp, bucket.holders.size(), {bucket.holders, bucket.name}, end)) return;
          break;
        }
        case Code::kGradNorm:
          if (!meet(pp, ranks_.size(), {}, end)) return;
          end += prices_.norm;
          break;
        default:
          break;
      }
      spans[rank.at] = {rank.now, end};
      rank.now = end;
    }
  }

  BucketPrice price_of(int pp, int bucket) const {
    return prices_.buckets.empty() ? BucketPrice{} : prices_.buckets[at(pp)][at(bucket)];
  }

  // Collectives of a rank run one behind the other. Returns when the rank goes on.
  Seconds start_collective(Rank& rank, Seconds time) {
    const Seconds start = std::max(rank.now, rank.collectives);
    rank.collectives = rank.ends[rank.at] = start + time;
    return prices_.overlap == Overlap::kDma ? rank.now : rank.collectives;
  }

  // A collective of several coordinates ends for all when the last one has come.
  bool meet(int pp, std::size_t size, const std::pair<std::vector<int>, std::string>& name, Seconds& end) {
    Meeting& meeting = meetings_[name];
    if (meeting.here.size() < size) {
      meeting.here.push_back(pp);
      meeting.last = std::max(meeting.last, end);
      if (meeting.here.size() < size) return false;
      for (const int other : meeting.here)
        if (other != pp) ready_.push_back(other);
    }
    end = meeting.last;
    return true;
  }

  const Program& program_;
  const Prices& prices_;
  const MessageNumbers numbers_;
  std::vector<Message> messages_;
  std::vector<Rank> ranks_;
  std::map<std::pair<std::vector<int>, std::string>, Meeting> meetings_;
  std::vector<int> ready_;
  VirtualRun run_;
};

}  // namespace

Prices equal_prices(const Program& program, std::array<Seconds, 3> times, Seconds latency) {
  Prices prices{{}, latency};
  for (const RankProgram& rank : program.by_pp) {
    auto& units = prices.units.emplace_back();
    for (std::size_t u = 0; u < rank.units.size(); ++u) {
      const Stage& stage = rank.stage(static_cast<int>(u));
      // A mirrored copy is no further share: each microbatch runs through one of the two.
      const double stages = static_cast<double>(std::count_if(
          rank.stages.begin(), rank.stages.end(), [&](const Stage& s) { return s.is_mirrored == stage.is_mirrored; }));
      const double share = 1.0 / (stages * (stage.last_unit - stage.first_unit + 1));
      const auto part = [&](double whole) { return Seconds{whole * share}; };
      units.push_back(
          {part(times[0].value), part(times[1].value), part(times[2].value), part(times[1].value + times[2].value)});
    }
  }
  return prices;
}

VirtualRun run_virtually(const Program& program, const Prices& prices) { return Runner(program, prices).run(); }

namespace {

// The run that a send stands behind.
int run_before(const RankProgram& list, int i) {
  while (i >= 0 && list.code[at(i)].code != Code::kRun) --i;
  return i;
}

class Reporter {
 public:
  Reporter(const Program& program, const VirtualRun& run) : program_(program), run_(run), numbers_(program) {
    sends_.resize(numbers_.count());
    for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
      const RankProgram& list = program.by_pp[pp];
      for (std::size_t i = 0; i < list.code.size(); ++i)
        if (list.code[i].code == Code::kSend)
          sends_[numbers_.of(list, list.code[i])] = {static_cast<int>(pp), static_cast<int>(i)}, ++out_.sends;
    }
  }

  RunReport make() {
    out_.makespan = run_.makespan;
    for (int pp = 0; pp < static_cast<int>(program_.by_pp.size()); ++pp) look_at(pp);
    const Seconds most = *std::max_element(out_.work.begin(), out_.work.end());
    out_.bubble = out_.makespan - most;
    out_.bubble_fraction = out_.makespan.value > 0 ? out_.bubble / out_.makespan : 0;
    find_path();
    return std::move(out_);
  }

 private:
  void look_at(int pp) {
    const RankProgram& list = program_.by_pp[at(pp)];
    const std::vector<Span>& spans = run_.by_pp[at(pp)];
    Seconds work;
    Bubble bubble;
    bool started = false;
    Seconds first, last;
    int chunks = 0, peak = 0;
    Bubble since_last_run;
    for (std::size_t i = 0; i < list.code.size(); ++i) {
      const Instruction& instruction = list.code[i];
      const Span& span = spans[i];
      if (instruction.code == Code::kRun) {
        if (!started) started = true, first = span.start, bubble.fill = span.start, since_last_run = {};
        work += span.end - span.start;
        last = span.end;
        add(bubble, std::exchange(since_last_run, {}));
        const Stage& stage = list.stage(instruction.unit);
        if (instruction.unit == stage.first_unit) {
          if (instruction.pass == Pass::kF) peak = std::max(peak, ++chunks);
          if (instruction.fused || instruction.pass == Pass::kW) --chunks;
        }
      } else if (instruction.code == Code::kWait && span.end > span.start) {
        wait(list, instruction, span, since_last_run);
      }
    }
    bubble.drain = run_.makespan - last;
    out_.work.push_back(work);
    out_.bubbles.push_back(bubble);
    out_.peak_chunks.push_back(peak);
    out_.span_bubble = std::max(out_.span_bubble, last - first - work);
  }

  static void add(Bubble& to, const Bubble& more) {
    to.activation += more.activation, to.gradient += more.gradient, to.message += more.message, to.send += more.send;
  }

  void wait(const RankProgram& list, const Instruction& i, const Span& span, Bubble& bubble) const {
    const Instruction& of = list.code[at(i.waits_for)];
    if (of.code == Code::kSend) {
      bubble.send += span.end - span.start;
      return;
    }
    if (of.code != Code::kRecv) return;  // for a collective of its own
    const Seconds made = std::clamp(sent_at(list, of), span.start, span.end);
    (of.pass == Pass::kF ? bubble.activation : bubble.gradient) += made - span.start;
    bubble.message += span.end - made;
  }

  Seconds sent_at(const RankProgram& list, const Instruction& receive) const {
    const PathStep& s = sends_[numbers_.of(list, receive)];
    return run_.by_pp[at(s.pp)][at(s.instruction)].start;
  }

  // Backwards from the run that ends last: what each run had to wait for.
  void find_path() {
    PathStep here{-1, -1};
    Seconds end = kNever;
    for (int pp = 0; pp < static_cast<int>(program_.by_pp.size()); ++pp) {
      const int i = run_before(program_.by_pp[at(pp)], static_cast<int>(program_.by_pp[at(pp)].code.size()) - 1);
      if (i >= 0 && run_.by_pp[at(pp)][at(i)].end > end) here = {pp, i}, end = run_.by_pp[at(pp)][at(i)].end;
    }
    while (here.instruction >= 0) {
      out_.critical_path.push_back(here);
      here = before(here);
    }
    std::reverse(out_.critical_path.begin(), out_.critical_path.end());
  }

  PathStep before(const PathStep& run) const {
    const RankProgram& list = program_.by_pp[at(run.pp)];
    const std::vector<Span>& spans = run_.by_pp[at(run.pp)];
    for (int i = run.instruction - 1; i >= 0; --i) {
      const Instruction& instruction = list.code[at(i)];
      if (instruction.code == Code::kRun) return {run.pp, i};
      if (instruction.code != Code::kWait || !(spans[at(i)].end > spans[at(i)].start)) continue;
      const Instruction& of = list.code[at(instruction.waits_for)];
      if (of.code == Code::kRecv) {
        const PathStep& s = sends_[numbers_.of(list, of)];
        return {s.pp, run_before(program_.by_pp[at(s.pp)], s.instruction)};
      }
      if (of.code == Code::kSend) {
        // Its receiver came late to the place where it posts.
        const RankProgram& other = program_.by_pp[at(of.peer)];
        for (int r = 0; r < static_cast<int>(other.code.size()); ++r)
          if (other.code[at(r)].code == Code::kRecv && numbers_.of(other, other.code[at(r)]) == numbers_.of(list, of))
            return {of.peer, run_before(other, r)};
      }
    }
    return {-1, -1};
  }

  const Program& program_;
  const VirtualRun& run_;
  const MessageNumbers numbers_;
  std::vector<PathStep> sends_;  // by message
  RunReport out_;
};

}  // namespace

RunReport report(const Program& program, const VirtualRun& run) { return Reporter(program, run).make(); }

}  // namespace sextant
