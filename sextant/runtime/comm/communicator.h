#pragma once
// How ranks talk: one interface, whatever carries it. Collectives are started and finished by the rank itself, at its
// own step boundaries; no helper threads. Every rank gets the same bits, in every run.
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sextant/base/dtype.h"
#include "sextant/base/slices.h"
#include "sextant/base/units.h"

namespace sextant {

/// A peer is lost, or came with something else. The group is dead afterwards.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// What the other ranks get when one rank ended with an error of its own; that one carries the reason.
class PeerFailed : public CommError {
 public:
  using CommError::CommError;
};

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
  virtual Pending all_reduce(Payload data) = 0;
  /// Rank i gets slice i (slice_of) of the sum of `in`; `out.count` is that slice's.
  virtual Pending reduce_scatter(Payload in, Payload out) = 0;
  /// `out` gets the slices of all ranks, slice i from rank i; `in.count` is the own slice's.
  virtual Pending all_gather(Payload in, Payload out) = 0;
  /// Sends in_counts[i] elements to rank i and gets out_counts[j] from rank j, in rank order.
  virtual Pending all_to_all(Payload in, std::vector<std::int64_t> in_counts, Payload out,
                             std::vector<std::int64_t> out_counts) = 0;
  virtual Pending broadcast(Payload data, int root) = 0;
  virtual Pending send(Payload data, int to, int tag) = 0;
  virtual Pending recv(Payload data, int from, int tag) = 0;
  virtual Pending barrier() = 0;

  /// The communicator of some of this one's ranks, ascending and with this rank among them. Called by all of them, in
  /// the same order.
  virtual std::unique_ptr<Communicator> group(const std::vector<int>& ranks) = 0;

  /// Payload received from other ranks so far, counted where it is copied.
  virtual Bytes received() const = 0;
  /// Moves started operations on without waiting.
  virtual void progress() = 0;

 protected:
  friend class Pending;
  /// Finishes operation `ticket` (and those before it); without `block` only as far as it goes. True if finished.
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
