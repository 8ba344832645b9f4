#include "sextant/runtime/comm/endpoint.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>

#include "sextant/base/atomic_file.h"
#include "sextant/base/errors.h"
#include "sextant/base/value.h"

namespace sextant {
namespace {

constexpr double kLeastPatience = 5, kTimesP99 = 10;
// Files and terminals may keep a rank asleep for long.
constexpr double kLeastPatienceWithFiles = 60;
// A rank that runs but does not come gets this many times the patience with one that sleeps; one that comes to other
// collectives meanwhile, so many times that; a rank of another node, whose neighbours see more of it than we do, a
// little more than they give it.
constexpr double kTimesBusy = 10, kTimesElsewhere = 10, kTimesRemote = 1.5;
constexpr double kAsleep = 0.02;  // share of a core that a rank which does nothing may use

}  // namespace

void Durations::add(Seconds time) {
  const auto micros = static_cast<std::uint64_t>(std::max(0.0, time.value) * 1e6);
  ++counts_[std::min<std::size_t>(counts_.size() - 1, static_cast<std::size_t>(std::bit_width(micros)))];
  ++total_;
}

Seconds Durations::p99() const {
  std::int64_t above = 0;
  for (std::size_t i = counts_.size(); i-- > 0;) {
    above += counts_[i];
    if (above * 100 > total_) return {std::ldexp(1e-6, static_cast<int>(i))};
  }
  return {};
}

Endpoint::Endpoint(int rank, std::vector<Neighbour> world, Board& board, Wire* wire, const CommOptions& options,
                   bool processes)
    : rank_(rank),
      world_(std::move(world)),
      board_(board),
      wire_(wire),
      options_(options),
      processes_(processes),
      busy_since_(steady_seconds()),
      remote_reason_(world_size()) {
  status().process = ::getpid();
  status().thread = ::gettid();
  status().since = busy_since_;
}

void Endpoint::yield() { ::sched_yield(); }

void Endpoint::add(std::uint64_t group, Active& active) {
  check(active_.emplace(group, &active).second, "a group is new");
  const auto early =
      std::stable_partition(early_.begin(), early_.end(), [&](const auto& note) { return note.second.group != group; });
  for (auto note = early; note != early_.end(); ++note) active.take_note(note->first, note->second);
  early_.erase(early, early_.end());
}

void Endpoint::remove(std::uint64_t group) { active_.erase(group); }

void Endpoint::progress() {
  // Once the run has failed, buffers of what is under way may be gone.
  if (wire_ && !(failed() && wire_->is_busy())) {
    int from = 0;
    Note note;
    while (wire_->take(from, note)) {
      heard();
      if (note.kind == Note::Kind::kFailure) {
        remote_reason_ = std::min(remote_reason_, from);
        int none = 0;
        board_.remote_code.compare_exchange_strong(none, note.tag);
        fail();
        continue;
      }
      const auto found = active_.find(note.group);
      if (found != active_.end())
        found->second->take_note(from, note);
      else
        early_.emplace_back(from, note);
    }
  }
  if (failed()) return;
  for (const auto& [group, active] : active_) active->advance();
}

void Endpoint::fail() {
  if (board_.failed.exchange(true)) return;
  for (int r = 0; r < world_size(); ++r)
    if (Status* other = status_of(r)) ring(*other);
}

void Endpoint::tell_others(ExitCode code) {
  if (!wire_ || std::exchange(has_told_, true)) return;
  for (int r = 0; r < world_size(); ++r)
    if (!status_of(r)) wire_->post(r, {.kind = Note::Kind::kFailure, .tag = static_cast<std::int32_t>(code)});
  constexpr double kMost = 0.5;
  const double start = steady_seconds();
  while (!wire_->flushed() && steady_seconds() < start + kMost) yield();
}

void Endpoint::enter(Phase phase) {
  const double now = steady_seconds();
  phase_ = phase;
  busy_since_ = now;
  status().since = now;
  status().phase = phase;
  if (phase != Phase::kEnded) return;
  status().ended = run_;
  for (int r = 0; r < world_size(); ++r)  // who waits for this rank waits for nothing
    if (Status* other = status_of(r)) ring(*other);
}

std::uint64_t Endpoint::record(const Record& record) {
  const std::uint64_t at = status().recorded.load();
  status().records[at % Status::kRecords].set(record);
  status().recorded.store(at + 1);
  return at;
}

void Endpoint::finish_record(std::uint64_t at) {
  if (status().recorded.load() > at + Status::kRecords) return;  // overwritten meanwhile
  Record record = status().records[at % Status::kRecords].get();
  record.end = steady_seconds();
  status().records[at % Status::kRecords].set(record);
}

void Endpoint::post_note(int to, const Note& note) { wire_->post(to, note); }

void Endpoint::throw_failed() const { throw PeerFailed("another rank ended"); }

void Endpoint::learn_gap(double now) { durations_[static_cast<std::size_t>(phase_)].add({now - busy_since_}); }
void Endpoint::learn_wait(double time) {
  durations_[static_cast<std::size_t>(phase_)].add({time});
  busy_since_ = steady_seconds();
}

Seconds Endpoint::patience(Phase phase) const {
  if (options_.timeout.value > 0) return options_.timeout;
  const bool files = phase == Phase::kLoading || phase == Phase::kSaving || phase == Phase::kReporting;
  return {std::max(files ? kLeastPatienceWithFiles : kLeastPatience,
                   kTimesP99 * durations_[static_cast<std::size_t>(phase)].p99().value)};
}

// Processor time that a rank has used, in seconds; of its thread, or of its process.
double Endpoint::cpu_seconds(const Status& status) const {
  if (!processes_) {
    std::ifstream file(str("/proc/self/task/", status.thread.load(), "/schedstat"));
    double nanoseconds = 0;
    file >> nanoseconds;
    return nanoseconds * 1e-9;
  }
  std::ifstream file(str("/proc/", status.process.load(), "/stat"));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// As in /proc: 'R' running, 'S' asleep, 'T' stopped, 'Z' dead; 0 if it is gone.
char Endpoint::system_state(const Status& status) const {
  std::ifstream file(processes_ ? str("/proc/", status.process.load(), "/stat")
                                : str("/proc/self/task/", status.thread.load(), "/stat"));
  std::string text;
  if (!std::getline(file, text)) return 0;
  const std::size_t name_end = text.rfind(')');
  return name_end + 2 < text.size() ? text[name_end + 2] : '\0';
}

bool Endpoint::is_alive(const Status& status) const {
  const char state = system_state(status);
  return state != 0 && state != 'Z' && state != 'T' && state != 't';
}

std::string Endpoint::last_of(int rank) const {
  const Status* s = status_of(rank);
  const std::uint64_t count = s ? s->recorded.load() : 0;
  if (count == 0) return str("rank ", rank, " has come to no collective so far");
  const Record last = s->records[(count - 1) % Status::kRecords].get();
  return str("its last was ", describe(last.print), last.end > 0 ? "" : ", which it waits in");
}

void Endpoint::look_around(int missing, Watch& watch, double now, const std::function<bool()>& done,
                           const std::function<std::string()>& what) {
  const Status* direct = status_of(missing);
  // Judged before it is asked once more whether it has come: what it did last, it did before it ended.
  // A rank that has ended itself waits for the others to do so, which is no fault of theirs.
  const bool ended = direct && direct->ended.load() >= run_ && phase_ != Phase::kEnded;
  const char state = direct && processes_ && !ended ? system_state(*direct) : 'R';
  const auto still_waits = [&] {
    progress();
    return !done() && !failed();
  };
  const auto here = [&] { return str(what(), ": rank ", rank_, " waits for rank ", missing, ", which "); };
  if (ended && still_waits())
    accuse(Cause::kMissing, missing, str(here(), "has ended its work without it; ", last_of(missing)));
  if ((state == 0 || state == 'Z') && still_waits())
    accuse(Cause::kDead, missing,
           str(here(), "is dead (process ", direct->process.load(), " was killed or crashed while ",
               name_of(direct->phase.load()), "); ", last_of(missing)));

  if (phase_ == Phase::kEnded) return;  // the others take the time they need
  // Who waits for whom, to the one that does not wait; one that was stopped in its wait does not.
  const auto is_stopped = [&](const Status& other) {
    const char now_is = processes_ ? system_state(other) : 'R';
    return now_is == 'T' || now_is == 't';
  };
  int suspect = missing;
  std::vector<int> chain{rank_};
  bool circle = false;
  while (true) {
    circle = std::find(chain.begin(), chain.end(), suspect) != chain.end();
    chain.push_back(suspect);
    const Status* s = status_of(suspect);
    const int next = s && s->ended.load() < run_ && !is_stopped(*s) ? s->waits_for.load() : -1;
    if (circle || next < 0) break;
    suspect = next;
  }
  // What a rank of another node does is not seen from here; but it may wait in its turn for one of this node that is
  // gone, stopped, or busy with something else.
  for (int r = 0; r < world_size() && !status_of(suspect); ++r) {
    const Status* other = r == rank_ ? nullptr : status_of(r);
    if (other && other->ended.load() < run_ && (other->waits_for.load() < 0 || !is_alive(*other))) suspect = r;
  }
  const Status* s = status_of(suspect);
  const std::string of_suspect =
      suspect == missing ? here() : str(here(), "waits itself, in the end for rank ", suspect, ", which ");
  if (s && processes_ && !is_alive(*s) && !is_stopped(*s) && still_waits())
    accuse(Cause::kDead, suspect,
           str(of_suspect, "is dead (process ", s->process.load(), " was killed or crashed while ",
               name_of(s->phase.load()), "); ", last_of(suspect)));
  const std::uint64_t progress =
      s ? s->recorded.load() * 16 + static_cast<std::uint64_t>(s->phase.load()) : heard_ * 16;
  const bool we_slept = now - watch.last_look > 1;  // stopped ourselves: nothing is known
  watch.last_look = now;
  if (we_slept) watch.start = watch.first = now;
  if (watch.suspect != suspect || watch.progress != progress || we_slept) {
    watch.start = now;
    watch.suspect = suspect, watch.progress = progress, watch.since = now;
    watch.cpu = s ? cpu_seconds(*s) : 0;
  }
  const Phase phase = s ? s->phase.load() : Phase::kComputing;
  const double most = patience(phase).value, still = now - watch.since;
  const bool is_over =
      now - watch.start >= kTimesBusy * most || now - watch.first >= kTimesElsewhere * kTimesBusy * most;
  if (!s) {
    if (now - watch.start > kTimesRemote * kTimesBusy * most && still_waits())
      accuse(Cause::kMissing, suspect,
             str(what(), ": rank ", rank_, " waits for rank ", suspect,
                 " of another node; nothing has come from there for ", human(Seconds{still})));
    return;
  }
  if (still < most && !is_over) return;
  const double cpu = cpu_seconds(*s) - watch.cpu;
  const bool asleep = still >= most && cpu < kAsleep * still;
  if (!circle && !asleep && !is_over) return;
  if (!still_waits()) return;
  if (circle) {
    std::vector<std::string> names;
    for (const int r : chain) names.push_back(str(r));
    std::string others;
    for (std::size_t i = 1; i + 1 < chain.size(); ++i)
      if (chain[i] != rank_) others += str("; rank ", chain[i], ": ", last_of(chain[i]));
    accuse(Cause::kOrder, missing,
           str(what(), ": ranks wait for each other in a circle (", join(names, " -> "), ")", others));
  }
  if (!asleep)
    accuse(Cause::kMissing, suspect,
           str(of_suspect, "runs (", name_of(phase), ") and has not come for ", human(Seconds{now - watch.first}), "; ",
               last_of(suspect)));
  if (is_stopped(*s))
    accuse(Cause::kStopped, suspect,
           str(of_suspect, "was stopped by a signal (process ", s->process.load(), ", ", name_of(phase), "); ",
               last_of(suspect)));
  if (phase == Phase::kLoading || phase == Phase::kData || phase == Phase::kReporting || phase == Phase::kSaving)
    accuse(Cause::kStuck, suspect,
           str(of_suspect, "is stuck ", name_of(phase), ": it has not run for ", human(Seconds{still}), "; ",
               last_of(suspect)));
  accuse(Cause::kStopped, suspect,
         str(of_suspect, "has not run for ", human(Seconds{still}), " (", name_of(phase), "); ", last_of(suspect)));
}

void Endpoint::accuse(Cause cause, int rank, const std::string& text) {
  int nobody = -1;
  if (!board_.speaker.compare_exchange_strong(nobody, rank_)) {
    fail();
    throw_failed();
  }
  // The others end, and wait for what this rank says.
  fail();
  tell_others(ExitCode::kHang);
  std::string message = str(name_of(cause), " in ", text);
  if (!options_.dump.empty()) {
    // Ranks of another node have written their own, if it was one of them that found out first.
    int lowest = rank_;
    for (int r = rank_; r >= 0; --r)
      if (status_of(r)) lowest = r;
    const std::string path = wire_ ? str(options_.dump, ".node-of-rank-", lowest) : options_.dump;
    try {
      write_dump(path, world_, message);
      message += str("; the last collectives of every rank", wire_ ? " of this node" : "", " are in ", printable(path));
    } catch (const InvalidInput& e) {
      message += str("; their last collectives could not be written: ", e.what());
    }
  }
  throw CommError(message, cause, rank);
}

void Endpoint::abandon() noexcept {
  has_dropped_ = has_dropped_ || !failed();
  fail();
  // A process that died while it copied never says that it has ended.
  const double start = steady_seconds();
  const auto others_copy = [&] {
    for (int r = 0; r < world_size(); ++r)
      if (r != rank_ && status_of(r) && status_of(r)->copying.load() > 0) return true;
    return false;
  };
  while (others_copy() && (!processes_ || steady_seconds() < start + 1)) yield();
}

void write_dump(const std::string& path, const std::vector<Neighbour>& world, const std::string& verdict) {
  Value dump;
  dump.set("verdict", verdict);
  Value::Array ranks;
  for (std::size_t r = 0; r < world.size(); ++r) {
    const Status* s = world[r].status;
    if (!s) continue;
    Value one;
    one.set("rank", static_cast<std::int64_t>(r));
    one.set("process", static_cast<std::int64_t>(s->process.load()));
    one.set("phase", std::string(name_of(s->phase.load())));
    one.set("waits_for", static_cast<std::int64_t>(s->waits_for.load()));
    const std::uint64_t count = s->recorded.load();
    one.set("collectives_so_far", static_cast<std::int64_t>(count));
    Value::Array records;
    for (std::uint64_t i = count > Status::kRecords ? count - Status::kRecords : 0; i < count; ++i) {
      const Record record = s->records[i % Status::kRecords].get();
      Value v;
      v.set("group", str(std::hex, record.group));
      v.set("number", static_cast<std::int64_t>(record.number));
      v.set("kind", std::string(name_of(record.print.what)));
      v.set("dtype", std::string(name_of(record.print.dtype)));
      v.set("count", record.print.count);
      v.set("root_or_peer", static_cast<std::int64_t>(record.print.root));
      v.set("site", std::string(record.print.site));
      v.set("start_s", record.start);
      v.set("end_s", record.end > 0 ? Value(record.end) : Value());
      records.push_back(std::move(v));
    }
    one.set("collectives", std::move(records));
    ranks.push_back(std::move(one));
  }
  dump.set("ranks", std::move(ranks));
  // Not waited for until it is on the disk: mpirun ends the speaker soon after a rank has died.
  write_file(path, to_json(dump) + "\n", false);
}

}  // namespace sextant
