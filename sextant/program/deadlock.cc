#include "sextant/program/deadlock.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sextant/base/errors.h"
#include "sextant/program/messages.h"

namespace sextant {
namespace {

constexpr int kMostSlots = 64;

// Runs every list until it waits for something that nobody does.
class Runner {
 public:
  Runner(const Program& program, Delivery delivery, int slots)
      : program_(program), delivery_(delivery), slots_(slots), numbers_(program), num_pp_(program.by_pp.size()) {
    sent_.assign(numbers_.count(), 0), posted_.assign(numbers_.count(), 0);
    waiter_.assign(numbers_.count(), -1);
    at_.assign(num_pp_, 0), for_whom_.assign(num_pp_, -1);
    under_way_.assign(num_pp_ * num_pp_, 0), slot_waiter_.assign(num_pp_ * num_pp_, -1);
  }

  std::optional<Stuck> run() {
    for (std::size_t pp = 0; pp < num_pp_; ++pp) ready_.push_back(static_cast<int>(pp));
    while (!ready_.empty()) {
      const int pp = ready_.back();
      ready_.pop_back();
      advance(pp);
    }
    for (std::size_t pp = 0; pp < num_pp_; ++pp)
      if (at_[pp] < code(pp).size()) return describe(static_cast<int>(pp));
    return std::nullopt;
  }

 private:
  const std::vector<Instruction>& code(std::size_t pp) const { return program_.by_pp[pp].code; }
  std::size_t channel(int from, int to) const {
    return static_cast<std::size_t>(from) * num_pp_ + static_cast<std::size_t>(to);
  }
  void wake(std::int32_t& waiter) {
    if (waiter >= 0) ready_.push_back(std::exchange(waiter, -1));
  }

  void advance(int pp) {
    const auto p = static_cast<std::size_t>(pp);
    const RankProgram& rank = program_.by_pp[p];
    for (; at_[p] < rank.code.size(); ++at_[p])
      if (!step(pp, rank, rank.code[at_[p]])) return;
  }

  // False: the rank waits here, and is woken by what it waits for.
  bool step(int pp, const RankProgram& rank, const Instruction& i) {
    const bool blocking = delivery_ == Delivery::kSlots;
    switch (i.code) {
      case Code::kSend: {
        const std::size_t n = numbers_.of(rank, i);
        int& under_way = under_way_[channel(pp, i.peer)];
        // Without slots the receiver must stand at the place where it takes this message.
        if (blocking && under_way >= slots_ && !(slots_ == 0 && posted_[n]))
          return wait_for(pp, i.peer, slots_ == 0 ? waiter_[n] : slot_waiter_[channel(pp, i.peer)]);
        ++under_way;
        sent_[n] = 1;
        wake(waiter_[n]);
        return true;
      }
      case Code::kRecv: {
        if (blocking) return true;
        const std::size_t n = numbers_.of(rank, i);
        posted_[n] = 1;
        wake(waiter_[n]);
        return true;
      }
      case Code::kWait: {
        const Instruction& of = rank.code[static_cast<std::size_t>(i.waits_for)];
        if (of.code == Code::kSend) {
          const std::size_t n = numbers_.of(rank, of);
          return delivery_ != Delivery::kRendezvous || posted_[n] || wait_for(pp, of.peer, waiter_[n]);
        }
        if (of.code != Code::kRecv) return true;
        const std::size_t n = numbers_.of(rank, of);
        if (!sent_[n]) {
          if (!blocking) return wait_for(pp, of.peer, waiter_[n]);
          posted_[n] = 1;
          wake(waiter_[n]);  // a sender without slots
          return wait_for(pp, of.peer, waiter_[n]);
        }
        if (blocking) --under_way_[channel(of.peer, pp)], wake(slot_waiter_[channel(of.peer, pp)]);
        return true;
      }
      case Code::kReduceRest: {
        const Bucket& bucket = rank.buckets[static_cast<std::size_t>(i.bucket)];
        return bucket.holders.size() < 2 || meet(pp, bucket.holders, bucket.name);
      }
      case Code::kGradNorm: {
        std::vector<int> all(num_pp_);
        for (std::size_t r = 0; r < num_pp_; ++r) all[r] = static_cast<int>(r);
        return meet(pp, all, "");
      }
      default:
        return true;
    }
  }

  bool wait_for(int pp, int whom, std::int32_t& waiter) {
    for_whom_[static_cast<std::size_t>(pp)] = whom;
    waiter = pp;
    return false;
  }

  // A collective of several coordinates: the last one to come lets all go on.
  bool meet(int pp, const std::vector<int>& all, const std::string& name) {
    std::vector<int>& here = meetings_[{all, name}];
    if (here.size() == all.size()) return true;  // it was woken
    if (std::find(here.begin(), here.end(), pp) == here.end()) here.push_back(pp);
    if (here.size() == all.size()) {
      for (const int other : here)
        if (other != pp) ready_.push_back(other);
      return true;
    }
    for (const int other : all)
      if (std::find(here.begin(), here.end(), other) == here.end()) for_whom_[static_cast<std::size_t>(pp)] = other;
    return false;
  }

  Stuck describe(int pp) const {
    // Whom each waits for leads into a circle, or to a rank that is at its end.
    std::vector<bool> seen(num_pp_, false);
    while (!seen[static_cast<std::size_t>(pp)]) {
      seen[static_cast<std::size_t>(pp)] = true;
      const int next = for_whom_[static_cast<std::size_t>(pp)];
      if (next < 0 || next >= static_cast<int>(num_pp_)) break;
      if (at_[static_cast<std::size_t>(next)] >= code(static_cast<std::size_t>(next)).size()) break;
      pp = next;
    }
    Stuck out{pp, static_cast<int>(at_[static_cast<std::size_t>(pp)]), ""};
    std::vector<bool> told(num_pp_, false);
    for (int r = pp;;) {
      const auto p = static_cast<std::size_t>(r);
      const int next = for_whom_[p];
      out.what += str(r == pp ? "pp " : "pp ", r, " waits in ", to_string(program_.by_pp[p], code(p)[at_[p]]),
                      " (instruction ", at_[p], ") for pp ", next);
      told[p] = true;
      if (next < 0 || next >= static_cast<int>(num_pp_) || told[static_cast<std::size_t>(next)]) break;
      if (at_[static_cast<std::size_t>(next)] >= code(static_cast<std::size_t>(next)).size()) {
        out.what += ", which has ended";
        break;
      }
      out.what += "; ";
      r = next;
    }
    return out;
  }

  const Program& program_;
  const Delivery delivery_;
  const int slots_;
  const MessageNumbers numbers_;
  const std::size_t num_pp_;
  std::vector<char> sent_, posted_;        // by message
  std::vector<std::int32_t> waiter_;       // by message: who waits for it
  std::vector<std::size_t> at_;            // by coordinate: next instruction
  std::vector<int> for_whom_;              // by coordinate: whom it waits for
  std::vector<int> under_way_;             // by ordered pair: messages in slots
  std::vector<std::int32_t> slot_waiter_;  // by ordered pair
  std::map<std::pair<std::vector<int>, std::string>, std::vector<int>> meetings_;
  std::vector<int> ready_;
};

}  // namespace

std::optional<Stuck> find_deadlock(const Program& program, Delivery delivery, int slots) {
  return Runner(program, delivery, slots).run();
}

int least_slots(const Program& program) {
  for (int slots = 0; slots <= kMostSlots; ++slots)
    if (!find_deadlock(program, Delivery::kSlots, slots)) return slots;
  return -1;
}

std::vector<Disorder> find_disorder(const Program& program) {
  const MessageNumbers numbers(program);
  std::map<std::pair<int, int>, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> orders;  // sent, used
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const RankProgram& rank = program.by_pp[pp];
    for (const Instruction& i : rank.code) {
      if (i.code == Code::kSend) orders[{static_cast<int>(pp), i.peer}].first.push_back(numbers.of(rank, i));
      if (i.code != Code::kWait) continue;
      const Instruction& of = rank.code[static_cast<std::size_t>(i.waits_for)];
      if (of.code == Code::kRecv) orders[{of.peer, static_cast<int>(pp)}].second.push_back(numbers.of(rank, of));
    }
  }
  std::vector<Disorder> out;
  for (const auto& [pair, lists] : orders) {
    const auto& [sent, used] = lists;
    int places = 0;
    for (std::size_t n = 0; n < std::min(sent.size(), used.size()); ++n) places += sent[n] != used[n];
    if (places > 0) out.push_back({pair.first, pair.second, places});
  }
  return out;
}

}  // namespace sextant
