#include <algorithm>

#include "sextant/base/errors.h"
#include "sextant/program/passes.h"

namespace sextant {
namespace {

// The buckets that a run reads and whose parameters are shards.
std::vector<int> gathered_by(const Program& program, const RankProgram& rank, const Instruction& run) {
  std::vector<int> out;
  rank.for_each_read(run, [&](int b) {
    if (program.zero_of(rank.buckets[static_cast<std::size_t>(b)]) == 3) out.push_back(b);
  });
  return out;
}

bool has(const std::vector<int>& list, int value) { return std::find(list.begin(), list.end(), value) != list.end(); }

class Sharder {
 public:
  Sharder(const Program& program, RankProgram& rank, int live_buckets, Tickets& tickets)
      : program_(program), rank_(rank), tickets_(tickets), runs_(std::move(rank.code)), budget_(live_buckets) {
    rank_.code.clear();
    const std::size_t n = rank.buckets.size(), m = static_cast<std::size_t>(program.num_microbatches);
    reads_.resize(n), gathering_.assign(n, -1), reducing_.assign(n, -1);
    left_.assign(program.reduces_each_microbatch() ? n * m : n, 0);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const std::vector<int> read = gathered_by(program, rank, runs_[i]);
      for (const int b : read) reads_[at(b)].push_back(i);
      rank.for_each_write(runs_[i], [&](int b) { ++left_[contributions(b, runs_[i].microbatch)]; });
      budget_ = std::max(budget_, static_cast<int>(read.size()));
    }
  }

  void make() {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      gather_for(i);
      rank_.for_each_write(runs_[i], [&](int b) { finish_reduction(b, true); });
      rank_.code.push_back(runs_[i]);
      for (const int b : gathered_by(program_, rank_, runs_[i]))
        if (reads_[at(b)].back() == i) free(b);
      rank_.for_each_write(runs_[i], [&](int b) {
        if (--left_[contributions(b, runs_[i].microbatch)] == 0 && is_reduced(b)) reduce(b);
      });
    }
    for (const int b : reduced_) finish_reduction(b, false);
  }

 private:
  static std::size_t at(int bucket) { return static_cast<std::size_t>(bucket); }
  bool is_reduced(int bucket) const { return program_.shards_of(rank_.buckets[at(bucket)]) > 1; }
  // Contributions that a reduction of this bucket behind this microbatch still waits for. Those of later microbatches
  // may be in it too: each is in exactly one.
  std::size_t contributions(int bucket, int microbatch) const {
    if (!program_.reduces_each_microbatch()) return at(bucket);
    return at(bucket) * static_cast<std::size_t>(program_.num_microbatches) + static_cast<std::size_t>(microbatch);
  }

  // What run `i` reads is there, and as much of what the next one reads as the budget lets be there already.
  void gather_for(std::size_t i) {
    const std::vector<int> now = gathered_by(program_, rank_, runs_[i]);
    for (const int b : now) gather(b, i, now, now);
    for (const int b : now) {
      if (gathering_[at(b)] < 0) continue;
      rank_.code.push_back({.code = Code::kWait, .waits_for = gathering_[at(b)]});
      gathering_[at(b)] = -1;
    }
    for (std::size_t j = i + 1; j < runs_.size() && !now.empty(); ++j) {
      const std::vector<int> next = gathered_by(program_, rank_, runs_[j]);
      if (next.empty()) continue;
      for (const int b : next) gather(b, i, now, next);
      return;
    }
  }

  // Gathers a bucket unless it is there. If the budget is full, the one goes whose next use is farthest (never one of
  // `now` or `next`): no order of gathers has fewer (Belady 1966). Does nothing if none can go.
  void gather(int bucket, std::size_t i, const std::vector<int>& now, const std::vector<int>& next) {
    if (has(live_, bucket)) return;
    if (static_cast<int>(live_.size()) >= budget_) {
      int farthest = -1;
      for (const int b : live_)
        if (!has(now, b) && !has(next, b) && (farthest < 0 || next_read(b, i) > next_read(farthest, i))) farthest = b;
      if (farthest < 0) return;
      free(farthest);
    }
    live_.push_back(bucket);
    gathering_[at(bucket)] = tickets_.next();
    rank_.code.push_back({.code = Code::kUnshard, .bucket = bucket, .waits_for = gathering_[at(bucket)]});
  }

  std::size_t next_read(int bucket, std::size_t behind) const {
    const auto& reads = reads_[at(bucket)];
    return *std::upper_bound(reads.begin(), reads.end(), behind);  // its last read would have freed it
  }

  void free(int bucket) {
    check(gathering_[at(bucket)] < 0, "a bucket that is freed has been used");
    live_.erase(std::find(live_.begin(), live_.end(), bucket));
    rank_.code.push_back({.code = Code::kReshard, .bucket = bucket});
  }

  void reduce(int bucket) {
    // Whole gradients that live for a part of the step only: one reduction at a time bounds them.
    if (program_.zero >= 2)
      for (const int b : std::vector<int>(reduced_)) finish_reduction(b, true);
    reducing_[at(bucket)] = tickets_.next();
    reduced_.push_back(bucket);
    rank_.code.push_back({.code = Code::kReduce, .bucket = bucket, .waits_for = reducing_[at(bucket)]});
  }

  void finish_reduction(int bucket, bool forget) {
    if (reducing_[at(bucket)] < 0) return;
    rank_.code.push_back({.code = Code::kWait, .waits_for = reducing_[at(bucket)]});
    reducing_[at(bucket)] = -1;
    if (forget) reduced_.erase(std::find(reduced_.begin(), reduced_.end(), bucket));
  }

  const Program& program_;
  RankProgram& rank_;
  Tickets& tickets_;
  const std::vector<Instruction> runs_;
  int budget_;
  std::vector<std::vector<std::size_t>> reads_;     // per bucket: its readers
  std::vector<int> live_;                           // gathered buckets
  std::vector<std::int32_t> gathering_, reducing_;  // per bucket: ticket of what is under way
  std::vector<int> reduced_;                        // buckets whose reduction is under way, in order
  std::vector<int> left_;
};

}  // namespace

void shard(const Program& program, RankProgram& rank, int live_buckets, Tickets& tickets) {
  Sharder(program, rank, live_buckets, tickets).make();
}

}  // namespace sextant
