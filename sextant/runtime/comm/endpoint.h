#pragma once
// One rank's end of all its groups: what it knows of the other ranks, how it waits for them, and what it says when
// they do not come.
#include <functional>
#include <map>
#include <vector>

#include "sextant/runtime/comm/board.h"
#include "sextant/runtime/comm/wire.h"

namespace sextant {

/// A rank of the world as another one sees it.
struct Neighbour {
  Status* status = nullptr;  ///< null: on another node, reached by the wire only
  std::ptrdiff_t shift = 0;  ///< what is at address a there is at a + shift here
};

/// Something that moves on when its rank has time.
class Active {
 public:
  virtual ~Active() = default;
  virtual void advance() = 0;
  virtual void take_note(int from, const Note& note) = 0;
};

/// How long something takes, as its rank has seen it so far: powers of two of a microsecond.
class Durations {
 public:
  void add(Seconds time);
  Seconds p99() const;  ///< upper bound; 0 without any

 private:
  std::array<std::int64_t, 48> counts_{};
  std::int64_t total_ = 0;
};

class Endpoint {
 public:
  /// `world`: every rank's Neighbour, the own one included. `wire` may be null if all are of this node.
  Endpoint(int rank, std::vector<Neighbour> world, Board& board, Wire* wire, const CommOptions& options,
           bool processes);
  virtual ~Endpoint() = default;

  int rank() const { return rank_; }
  int world_size() const { return static_cast<int>(world_.size()); }
  const Neighbour& neighbour(int world_rank) const { return world_[static_cast<std::size_t>(world_rank)]; }
  Status& status() { return *world_[static_cast<std::size_t>(rank_)].status; }
  Status* status_of(int world_rank) const { return neighbour(world_rank).status; }
  Board& board() { return board_; }
  Wire* wire() { return wire_; }
  void set_options(const CommOptions& options) {
    const int spin = options.spin >= 0 ? options.spin : options_.spin;
    options_ = options;
    options_.spin = spin;
  }

  /// Numbers the worlds that this rank has been part of, one after the other.
  virtual std::uint64_t next_world() { return 0; }
  /// Memory for a Desk; lives as long as the endpoint.
  virtual Desk* new_desk() = 0;
  virtual Region memory(Bytes capacity) = 0;
  /// Whether others of the node reach this address.
  virtual bool is_shown(const void* address) const = 0;

  void add(std::uint64_t group, Active& active);
  void remove(std::uint64_t group);

  /// Moves everything on.
  void progress();
  /// A run begins; a rank of an MPI job may have several, one after the other.
  void begin() {
    ++run_;
    enter(Phase::kStarting);
  }
  bool failed() const { return board_.failed.load(); }
  /// Ends the run for the ranks of this node.
  void fail();
  /// Tells the ranks of other nodes that this one ends the run for a reason of its own.
  void tell_others(ExitCode code);
  /// Whether the run ended because this rank dropped an operation.
  bool has_dropped() const { return has_dropped_; }
  /// The lowest rank of another node that has ended with a reason of its own; world_size() if none has.
  int remote_reason() const { return remote_reason_; }
  void enter(Phase phase);
  std::uint64_t record(const Record& record);
  void finish_record(std::uint64_t at);
  /// Whether the process of a rank of this node runs.
  bool is_alive(const Status& status) const;
  /// Something has come from another node.
  void heard() { ++heard_; }
  /// Passes a note to a rank of another node.
  void post_note(int to, const Note& note);

  /// Waits until `done`, moving everything on meanwhile. `missing()`: the world rank that it waits for now.
  /// `what()`: the operation in words. Throws CommError or PeerFailed.
  template <class Done, class Missing, class Words>
  void wait(const Done& done, const Missing& missing, const Words& what) {
    if (look(done)) return;
    Watch watch;
    watch.start = watch.first = watch.last_look = steady_seconds();
    learn_gap(watch.start);
    status().waits_for.store(missing());
    const struct Leave {  // also when an error passes
      Endpoint& end;
      ~Leave() { end.status().waits_for.store(-1); }
    } leave{*this};
    while (!look(done)) {
      const std::uint32_t heard = fall_asleep();
      progress();
      if (!done() && !failed()) sleep_until_rung(status(), heard, wire_ ? kPoll : kLookAround);
      status().sleeping.store(0);
      const double now = steady_seconds();
      if (now < watch.next_look) continue;
      watch.next_look = now + kLookAround.value;
      const int rank = missing();
      status().waits_for.store(rank);
      if (rank >= 0) look_around(rank, watch, now, done, what);
    }
    learn_wait(steady_seconds() - watch.start);
  }

  /// Ends the run: writes the dump, wakes everybody, throws. Where another rank was first, throws PeerFailed.
  [[noreturn]] void accuse(Cause cause, int rank, const std::string& text);
  /// Ends the run and returns when no rank of this node touches this one's memory any more.
  void abandon() noexcept;

 private:
  static constexpr Seconds kLookAround{0.05}, kPoll{1e-4}, kOffering{2e-3};
  static constexpr int kYields = 64;
  struct Watch {
    double start = 0, next_look = 0;
    int suspect = -1;            // who is waited for, through all that wait themselves
    std::uint64_t progress = 0;  // of the suspect
    double since = 0;            // when it was last seen to move on
    double cpu = 0;              // processor time that it had used then
    double last_look = 0, first = 0;
  };

  // A look is repeated a while before the rank sleeps: with more ranks than cores the peer that is waited for may need
  // this core, so it is offered before sleeping, which costs two context switches and a wake-up.
  template <class Done>
  bool look(const Done& done) {
    double until = 0;  // of the offers: a stranger that takes them keeps the core for long
    for (int i = 0; i < options_.spin + kYields; ++i) {
      progress();
      if (done()) return true;
      if (failed()) throw_failed();
      if (i < options_.spin) {
        pause();
        continue;
      }
      if (until == 0) until = steady_seconds() + kOffering.value;
      yield();
      if (steady_seconds() > until) break;
    }
    return done();
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  static void yield();
  std::uint32_t fall_asleep() {
    status().sleeping.store(1);
    return status().bell.load();
  }
  [[noreturn]] void throw_failed() const;
  void learn_gap(double now);
  void learn_wait(double time);
  Seconds patience(Phase phase) const;
  void look_around(int missing, Watch& watch, double now, const std::function<bool()>& done,
                   const std::function<std::string()>& what);
  double cpu_seconds(const Status& status) const;
  char system_state(const Status& status) const;
  std::string last_of(int rank) const;

  int rank_;
  std::vector<Neighbour> world_;
  Board& board_;
  Wire* wire_;
  CommOptions options_;
  bool processes_;
  std::map<std::uint64_t, Active*> active_;
  std::vector<std::pair<int, Note>> early_;  // of groups that this rank has not made yet
  Phase phase_ = Phase::kStarting;
  std::array<Durations, kNumPhases> durations_;  // by phase: own work between waits, and waits
  double busy_since_ = 0;
  std::uint64_t run_ = 0;
  int remote_reason_;
  bool has_told_ = false, has_dropped_ = false;
  std::uint64_t heard_ = 0;  // from other nodes, so far
};

/// Writes the last collectives of the node's ranks as JSON.
void write_dump(const std::string& path, const std::vector<Neighbour>& world, const std::string& verdict);

}  // namespace sextant
