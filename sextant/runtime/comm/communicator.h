#pragma once
// How ranks talk: one interface, whatever carries it. Collectives are started and finished by the rank itself, at its
// own step boundaries; no helper threads. Every rank gets the same bits, in every run, on every backend.
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sextant/base/dtype.h"
#include "sextant/base/errors.h"
#include "sextant/base/slices.h"
#include "sextant/base/units.h"
#include "sextant/runtime/memory/pool.h"

namespace sextant {

/// Why a group of ranks cannot go on.
enum class Cause : std::uint8_t {
  kNone,
  kMissing,  ///< a rank runs, or has ended its work, without coming to the collective
  kOrder,    ///< ranks come from different places of the program
  kKind,     ///< ... with different operations
  kCount,    ///< ... with different numbers of elements
  kDtype,    ///< ... with different types of elements
  kRoot,     ///< ... with different roots of a broadcast
  kDead,     ///< the process of a rank is gone
  kStopped,  ///< a rank does not run: stopped, or asleep outside of any collective
  kStuck     ///< a rank is asleep in its data, weights or output: a device or a network file system hangs
};
std::string_view name_of(Cause cause);

/// A peer is lost, or came with something else. The group is dead afterwards.
class CommError : public std::runtime_error {
 public:
  explicit CommError(const std::string& text, Cause why = Cause::kNone, int whose = -1)
      : std::runtime_error(text), cause(why), rank(whose) {}
  Cause cause;
  int rank;  ///< in the world; -1 if no single one is to blame
};
/// What the other ranks get when one rank ended with an error of its own; that one carries the reason.
class PeerFailed : public CommError {
 public:
  explicit PeerFailed(const std::string& text, ExitCode code = ExitCode::kHang) : CommError(text), exit_code(code) {}
  ExitCode exit_code;  ///< what the run ends with
};

/// The place in the program that a collective is called from: part of what ranks must agree on. A label of the
/// program's own ("reduce L03") where one line of code serves many places; else the line of code.
class Site {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a default argument, or a label in its place
  Site(int line = __builtin_LINE(), const char* file = __builtin_FILE());
  Site(std::string_view label);
  Site(const char* label) : Site(std::string_view(label)) {}
  // NOLINTEND(google-explicit-constructor)
  std::string_view text() const { return text_; }

 private:
  char text_[40] = {};
};

/// What a rank is busy with outside of collectives; says how long others wait for it, and what they say of it.
enum class Phase : std::uint8_t { kStarting, kLoading, kData, kComputing, kReporting, kSaving, kEnded };
inline constexpr int kNumPhases = 7;
std::string_view name_of(Phase phase);

struct CommOptions {
  int spin = -1;      ///< looks before a waiting rank sleeps; -1: 2000 with a core for each rank, else 50
  Seconds timeout{};  ///< patience with a peer that gives no sign of life; 0: learned, max(5 s, 10 x p99 of the phase)
  std::string dump;   ///< file for the last collectives of every rank when the run ends for a peer; "" for none
};
/// Says an error to the user and returns the exit code. Where it is given, a run that failed ends even if one of its
/// ranks never does.
using Report = std::function<int(const std::exception_ptr&)>;

class Communicator;

/// A started operation. Its buffers belong to it until wait() returns. One that is dropped unfinished (an error unwinds
/// past it) ends the run: its buffers are about to go, and no peer may copy from them any more.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  Pending(Communicator& owner, std::uint64_t ticket) : owner_(&owner), ticket_(ticket) {}
  Pending(Pending&& o) noexcept : owner_(std::exchange(o.owner_, nullptr)), ticket_(o.ticket_) {}
  Pending& operator=(Pending&& o) noexcept {
    std::swap(owner_, o.owner_), std::swap(ticket_, o.ticket_);
    return *this;
  }
  ~Pending();
  void wait();
  bool test();  ///< makes progress; true once finished
 private:
  Communicator* owner_ = nullptr;
  std::uint64_t ticket_ = 0;
};

struct Payload {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::kF32;
};
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct dtype_of<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <class T>
Payload payload(std::span<T> data) {
  return {const_cast<void*>(static_cast<const void*>(data.data())), static_cast<std::int64_t>(data.size()),
          dtype_of<std::remove_const_t<T>>::value};
}

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sum over ranks, added in rank order, in place.
  virtual Pending all_reduce(Payload data, Site site = {}) = 0;
  /// The greatest of all ranks' values, element by element, in place. The same bytes as a sum.
  virtual Pending all_reduce_max(Payload data, Site site = {}) = 0;
  /// Rank i gets slice i (slice_of) of the sum of `in`; `out.count` is that slice's.
  virtual Pending reduce_scatter(Payload in, Payload out, Site site = {}) = 0;
  /// `out` gets the slices of all ranks, slice i from rank i; `in.count` is the own slice's.
  virtual Pending all_gather(Payload in, Payload out, Site site = {}) = 0;
  /// The buffers of all_to_all do not overlap; the own slice of reduce_scatter and all_gather may lie in its place.
  /// Sends in_counts[i] elements to rank i and gets out_counts[j] from rank j, in rank order.
  virtual Pending all_to_all(Payload in, std::vector<std::int64_t> in_counts, Payload out,
                             std::vector<std::int64_t> out_counts, Site site = {}) = 0;
  virtual Pending broadcast(Payload data, int root, Site site = {}) = 0;
  /// May wait while 256 earlier messages to ranks of this node are not taken.
  virtual Pending send(Payload data, int to, int tag, Site site = {}) = 0;
  virtual Pending recv(Payload data, int from, int tag, Site site = {}) = 0;
  virtual Pending barrier(Site site = {}) = 0;

  /// The communicator of some of this one's ranks, ascending and with this rank among them. Called by all of them, in
  /// the same order. Must not outlive this one.
  virtual std::unique_ptr<Communicator> group(const std::vector<int>& ranks) = 0;

  /// Address space that the other ranks of this node reach: what lies in it is never copied aside.
  virtual Region memory(Bytes capacity) = 0;
  /// How many of this communicator's ranks share this rank's memory and cores, itself included.
  virtual int ranks_here() const = 0;

  /// Payload received from other ranks so far, counted where it is copied.
  virtual Bytes received() const = 0;
  /// Moves started operations on without waiting.
  virtual void progress() = 0;
  /// Says what this rank does next.
  virtual void enter(Phase phase) = 0;
  /// Of this rank, for all its groups, from now on.
  virtual void set_options(const CommOptions& options) = 0;

 protected:
  friend class Pending;
  /// Finishes operation `ticket`; without `block` only as far as it goes. True if finished.
  virtual bool finish(std::uint64_t ticket, bool block) = 0;
  /// Ends the run for all ranks; returns once no peer touches this rank's buffers.
  virtual void abandon() noexcept = 0;
};

inline Pending::~Pending() {
  if (owner_) owner_->abandon();
}

inline void Pending::wait() {
  if (owner_) owner_->finish(ticket_, true), owner_ = nullptr;
}
inline bool Pending::test() {
  if (owner_ && owner_->finish(ticket_, false)) owner_ = nullptr;
  return !owner_;
}

}  // namespace sextant
