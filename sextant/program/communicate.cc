#include <algorithm>
#include <limits>
#include <utility>

#include "sextant/base/errors.h"
#include "sextant/program/passes.h"

namespace sextant {
namespace {

// Messages of an ordered pair of ranks that may be under way: a sender does not wait for a receiver that is a little
// behind. Receives are posted early enough that this is seldom all that is needed.
constexpr int kSlots = 2;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// What runs without a look at the world: the runs of a stage's pass, or of an overlapped pair.
struct Block {
  std::size_t begin = 0, end = 0;  // in the list; between its runs there may be gathers
  double start = -1;               // when it is expected to, in passes of a stage
};

struct Message {
  int from = 0, to = 0;  // coordinates
  int from_unit = 0, to_unit = 0;
  Pass pass = Pass::kF;
  int microbatch = 0;
  std::size_t made = 0, used = 0;  // block behind which it is sent, in front of which it is needed
  double sent = 0;                 // when it is expected to be
};

class Communicator {
 public:
  explicit Communicator(Program& program) : program_(program), num_microbatches_(at(program.num_microbatches)) {
    const std::size_t n = program.by_pp.size();
    blocks_.resize(n), block_of_.resize(n), end_.resize(n), sent_.resize(n), received_.resize(n);
    for (std::size_t pp = 0; pp < n; ++pp) find_blocks(pp);
    expect_times();
    find_messages();
  }

  void make(int pp, Tickets& tickets) const;

 private:
  RankProgram& rank(int pp) const { return program_.by_pp[at(pp)]; }
  std::size_t index(Pass pass, int unit, int microbatch) const {
    return ((pass == Pass::kF ? 0 : 1) + 2 * at(unit)) * num_microbatches_ + at(microbatch);
  }

  void find_blocks(std::size_t pp) {
    const RankProgram& list = program_.by_pp[pp];
    block_of_[pp].assign(2 * list.units.size() * num_microbatches_, -1);
    end_[pp].assign(block_of_[pp].size(), -1);
    const Instruction* last = nullptr;
    for (std::size_t i = 0; i < list.code.size(); ++i) {
      const Instruction& run = list.code[i];
      if (run.code != Code::kRun) continue;
      const bool continues = last && run.pair == last->pair &&
                             (run.pair >= 0 || (run.pass == last->pass && run.microbatch == last->microbatch &&
                                                list.stage_of[at(run.unit)] == list.stage_of[at(last->unit)]));
      if (!continues) blocks_[pp].push_back({i, i});
      blocks_[pp].back().end = i;
      last = &run;
      if (run.pass != Pass::kW)
        block_of_[pp][index(run.pass, run.unit, run.microbatch)] = static_cast<std::int32_t>(blocks_[pp].size()) - 1;
    }
  }

  // The stage that a run's boundary tensor comes from (or goes to), as its last (first) unit on its coordinate.
  struct Neighbour {
    int pp = -1, unit = -1;
  };
  Neighbour neighbour(int pp, int unit, int direction) const {
    const Stage& stage = rank(pp).stage(unit);
    if (unit != (direction < 0 ? stage.first_unit : stage.last_unit)) return {pp, unit + direction};
    const int there = direction < 0 ? stage.before : stage.after;
    if (there < 0) return {};
    for (const Stage& other : rank(there).stages)
      if (other.index == stage.index + direction && other.is_mirrored == stage.is_mirrored)
        return {there, direction < 0 ? other.last_unit : other.first_unit};
    throw InternalError("a stage's neighbour is where the stage says");
  }

  // When every block starts if each pass of a stage takes the same time and messages take none. What waits in a circle
  // is left without a time.
  void expect_times() {
    const std::size_t n = program_.by_pp.size();
    std::vector<std::size_t> next(n, 0);
    std::vector<double> now(n, 0);
    std::vector<std::vector<std::int32_t>> waiters(n);  // by what a coordinate makes: who waits for it
    for (std::size_t pp = 0; pp < n; ++pp) waiters[pp].assign(end_[pp].size(), -1);
    std::vector<int> ready;
    for (std::size_t pp = n; pp-- > 0;) ready.push_back(static_cast<int>(pp));
    while (!ready.empty()) {
      const int pp = ready.back();
      ready.pop_back();
      while (next[at(pp)] < blocks_[at(pp)].size()) {
        Block& block = blocks_[at(pp)][next[at(pp)]];
        double start = now[at(pp)], length = 0;
        if (!inputs_are_there(pp, block, start, waiters)) break;
        block.start = start;
        const std::vector<Instruction>& code = rank(pp).code;
        for_each_run(code, block, [&](const Instruction& run) {
          const Stage& stage = rank(pp).stage(run.unit);
          length += (run.fused ? 2.0 : 1.0) / (stage.last_unit - stage.first_unit + 1);
        });
        now[at(pp)] = start + length;
        for_each_run(code, block, [&](const Instruction& run) {
          if (run.pass == Pass::kW) return;
          const std::size_t made = index(run.pass, run.unit, run.microbatch);
          end_[at(pp)][made] = now[at(pp)];
          if (waiters[at(pp)][made] >= 0) ready.push_back(std::exchange(waiters[at(pp)][made], -1));
        });
        ++next[at(pp)];
      }
    }
  }

  void for_each_run(const std::vector<Instruction>& code, const Block& block, const auto& body) const {
    for (std::size_t i = block.begin; i <= block.end; ++i)
      if (code[i].code == Code::kRun) body(code[i]);
  }

  bool inputs_are_there(int pp, const Block& block, double& start,
                        std::vector<std::vector<std::int32_t>>& waiters) const {
    bool there = true;
    for_each_run(rank(pp).code, block, [&](const Instruction& run) {
      if (!there || run.pass == Pass::kW) return;
      const Neighbour from = neighbour(pp, run.unit, run.pass == Pass::kF ? -1 : +1);
      if (from.pp < 0 || from.pp == pp) return;
      const std::size_t made = index(run.pass, from.unit, run.microbatch);
      const double end = end_[at(from.pp)][made];
      if (end < 0)
        waiters[at(from.pp)][made] = pp, there = false;
      else
        start = std::max(start, end);
    });
    return there;
  }

  // Every message, in its sender's order.
  void find_messages() {
    for (int from = 0; from < static_cast<int>(program_.by_pp.size()); ++from) {
      for (std::size_t b = 0; b < blocks_[at(from)].size(); ++b)
        for_each_run(rank(from).code, blocks_[at(from)][b], [&](const Instruction& run) {
          if (run.pass == Pass::kW) return;
          const Neighbour to = neighbour(from, run.unit, run.pass == Pass::kF ? +1 : -1);
          if (to.pp < 0 || to.pp == from) return;
          const std::size_t wanted = index(run.pass, to.unit, run.microbatch);
          const std::int32_t used = block_of_[at(to.pp)][wanted];
          check(used >= 0, "what is sent is used");
          const double sent = end_[at(from)][index(run.pass, run.unit, run.microbatch)];
          const Message message{from,
                                to.pp,
                                run.unit,
                                to.unit,
                                run.pass,
                                run.microbatch,
                                b,
                                static_cast<std::size_t>(used),
                                sent < 0 ? std::numeric_limits<double>::infinity() : sent};
          sent_[at(from)].push_back(message);
          received_[at(to.pp)].push_back(message);
        });
    }
  }

  Program& program_;
  const std::size_t num_microbatches_;
  std::vector<std::vector<Block>> blocks_;
  std::vector<std::vector<std::int32_t>> block_of_;  // [pp][pass, unit, microbatch]
  std::vector<std::vector<double>> end_;             // the same: when it is expected to be made
  std::vector<std::vector<Message>> sent_, received_;
};

void Communicator::make(int pp, Tickets& tickets) const {
  RankProgram& list = rank(pp);
  const std::vector<Instruction> code = std::move(list.code);
  const std::vector<Block>& blocks = blocks_[at(pp)];
  list.code.clear();

  // A receive is posted in front of the block that runs when its message is sent, so that no transfer waits for it, and
  // one block before its use at the latest. Those of one sender are posted in its order: none later than one behind it.
  struct Receive {
    std::size_t block;
    const Message* message;
    std::int32_t ticket;
  };
  std::vector<Receive> receives;
  const std::vector<Message>& incoming = received_[at(pp)];
  std::vector<std::size_t> bound(program_.by_pp.size(), blocks.size());
  for (std::size_t n = incoming.size(); n-- > 0;) {
    const Message& m = incoming[n];
    const auto later = std::upper_bound(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(m.used), m.sent,
                                        [](double time, const Block& b) { return b.start < 0 || time < b.start; });
    const auto running = static_cast<std::size_t>(later - blocks.begin());
    const std::size_t wanted = std::min(running, m.used);
    std::size_t& most = bound[at(m.from)];
    most = std::min(most, wanted > 0 ? wanted - 1 : 0);
    receives.push_back({most, &m, -1});
  }
  std::reverse(receives.begin(), receives.end());
  std::stable_sort(receives.begin(), receives.end(), [](const auto& a, const auto& b) { return a.block < b.block; });
  std::vector<std::pair<std::size_t, std::int32_t>> waits;  // (block, ticket)
  for (Receive& r : receives) waits.emplace_back(r.message->used, r.ticket = tickets.next());
  std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.first < b.first; });

  const std::vector<Message>& outgoing = sent_[at(pp)];
  std::vector<std::vector<std::int32_t>> under_way(program_.by_pp.size());
  std::size_t receive = 0, wait = 0, send = 0, block = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const bool begins = block < blocks.size() && blocks[block].begin == i;
    for (; begins && receive < receives.size() && receives[receive].block == block; ++receive) {
      const Message& m = *receives[receive].message;
      list.code.push_back({.code = Code::kRecv,
                           .pass = m.pass,
                           .unit = static_cast<std::int16_t>(m.to_unit),
                           .peer = static_cast<std::int16_t>(m.from),
                           .microbatch = m.microbatch,
                           .waits_for = receives[receive].ticket});
    }
    for (; begins && wait < waits.size() && waits[wait].first == block; ++wait)
      list.code.push_back({.code = Code::kWait, .waits_for = waits[wait].second});
    list.code.push_back(code[i]);
    if (block >= blocks.size() || blocks[block].end != i) continue;
    for (; send < outgoing.size() && outgoing[send].made == block; ++send) {
      const Message& m = outgoing[send];
      auto& slots = under_way[at(m.to)];
      if (static_cast<int>(slots.size()) == kSlots) {
        list.code.push_back({.code = Code::kWait, .waits_for = slots.front()});
        slots.erase(slots.begin());
      }
      slots.push_back(tickets.next());
      list.code.push_back({.code = Code::kSend,
                           .pass = m.pass,
                           .unit = static_cast<std::int16_t>(m.from_unit),
                           .peer = static_cast<std::int16_t>(m.to),
                           .microbatch = m.microbatch,
                           .waits_for = slots.back()});
    }
    ++block;
  }
  for (const auto& slots : under_way)
    for (const std::int32_t left : slots) list.code.push_back({.code = Code::kWait, .waits_for = left});
}

}  // namespace

void communicate(Program& program, std::vector<Tickets>& tickets) {
  const Communicator communicator(program);
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) communicator.make(static_cast<int>(pp), tickets[pp]);
}

}  // namespace sextant
