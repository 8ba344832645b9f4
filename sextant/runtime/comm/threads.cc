#include "sextant/runtime/comm/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

enum class What : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kBarrier };
constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                       "all_to_all", "broadcast",      "barrier"};

/// What a rank brings to a collective. Everything that must agree is compared before a byte moves.
struct Post {
  What what{};
  Payload in, out;
  int root = 0;
  std::vector<std::int64_t> in_counts, out_counts;
};

std::string describe(const Post& p) {
  std::string out(kNames[static_cast<std::size_t>(p.what)]);
  if (p.what == What::kBarrier) return out;
  out += str("(", p.what == What::kAllGather ? p.out.count : p.in.count, " x ", name_of(p.in.dtype));
  if (p.what == What::kBroadcast) out += str(" from ", p.root);
  return out + ")";
}

// Wakes sleepers after a change that they may wait for. Waiting spins briefly, then sleeps.
class Signal {
 public:
  static constexpr int kYields = 64;
  void notify() {
    if (sleepers_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    woken_.notify_all();
  }
  /// True once `done`, false when the time is over.
  template <class Done>
  bool wait(const Done& done, int spin, Seconds timeout) {
    for (int i = 0; i < spin; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    // With more ranks than cores the peer that is waited for may need this core: it is offered before sleeping, which
    // costs two context switches and a wake-up.
    for (int i = 0; i < kYields; ++i) {
      if (done()) return true;
      std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    const bool finished = woken_.wait_for(lock, std::chrono::duration<double>(timeout.value), done);
    sleepers_.fetch_sub(1);
    return finished;
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable woken_;
};

/// Shared by all groups of a run.
struct World {
  explicit World(ThreadOptions o) : options(o) {}
  ThreadOptions options;
  Signal signal;
  std::atomic<bool> failed{false};
  std::mutex mutex;
  /// By parent, number of the group made from it, and members: groups of equal members are still different ones.
  std::map<std::tuple<const void*, int, std::vector<int>>, std::shared_ptr<struct Room>> rooms;

  std::atomic<int> copying{0};  // ranks that touch others' buffers right now

  void fail() {
    failed = true;
    signal.notify();
  }
};

/// While one exists, buffers of other ranks may be touched; none comes to be once the run has failed.
class Copying {
 public:
  explicit Copying(World& world) : world_(world) {
    world_.copying.fetch_add(1);
    if (!world_.failed) return;
    world_.copying.fetch_sub(1);
    throw PeerFailed("another rank ended");
  }
  ~Copying() { world_.copying.fetch_sub(1); }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  World& world_;
};

struct Message {
  Payload data;
  bool taken = false;
};

/// Shared by the ranks of one group.
struct Room {
  static constexpr std::uint64_t kWindow = 64;  // operations a rank may be ahead of the slowest
  Room(std::vector<int> members_, World& world_)
      : members(std::move(members_)), world(world_), posts(members.size() * kWindow), counters(members.size()) {}
  struct alignas(64) Counters {
    std::atomic<std::uint64_t> posted{0};  // operations announced
    std::atomic<std::uint64_t> moved{0};   // operations whose copying this rank has done
    std::atomic<std::int64_t> received{0};
  };
  std::vector<int> members;  // world ranks, for messages
  World& world;
  std::vector<Post> posts;
  std::vector<Counters> counters;
  std::mutex mail_mutex;
  std::map<std::tuple<int, int, int>, std::deque<std::shared_ptr<Message>>> mail;  // (from, to, tag)

  Post& post(std::uint64_t operation, int rank) {
    return posts[operation % kWindow * counters.size() + static_cast<std::size_t>(rank)];
  }
  bool all(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t beyond) const {
    for (const Counters& c : counters)
      if ((c.*counter).load() <= beyond) return false;
    return true;
  }
};

// sum[i] = parts[0][i] + parts[1][i] + ...; written to every one of `to`. In blocks, so that a block stays in cache.
template <class T>
void sum_slice(std::span<const T* const> parts, std::span<T* const> to, std::int64_t count) {
  constexpr std::int64_t kBlock = 2048;
  T sum[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const T *a = parts[0] + begin, *b = parts[1] + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
    for (std::size_t p = 2; p < parts.size(); ++p) {
      const T* more = parts[p] + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) sum[i] += more[i];
    }
    for (T* out : to) std::memcpy(out + begin, sum, static_cast<std::size_t>(n) * sizeof(T));
  }
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Room> room, int rank)
      : room_(std::move(room)),
        rank_(rank),
        next_(room_->counters[static_cast<std::size_t>(rank)].posted.load()),
        moved_(next_) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(room_->members.size()); }

  Pending all_reduce(Payload data) override { return start({What::kAllReduce, data, data}); }
  Pending reduce_scatter(Payload in, Payload out) override {
    check(out.count == slice_of(in.count, size(), rank_).size(), "reduce_scatter yields the own slice");
    return start({What::kReduceScatter, in, out});
  }
  Pending all_gather(Payload in, Payload out) override {
    check(in.count == slice_of(out.count, size(), rank_).size(), "all_gather brings the own slice");
    return start({What::kAllGather, in, out});
  }
  Pending all_to_all(Payload in, std::vector<std::int64_t> in_counts, Payload out,
                     std::vector<std::int64_t> out_counts) override {
    check(static_cast<int>(in_counts.size()) == size() && static_cast<int>(out_counts.size()) == size(),
          "all_to_all has a count for every rank");
    return start({What::kAllToAll, in, out, 0, std::move(in_counts), std::move(out_counts)});
  }
  Pending broadcast(Payload data, int root) override { return start({What::kBroadcast, data, data, root}); }
  Pending barrier() override { return start({What::kBarrier}); }

  Pending send(Payload data, int to, int tag) override {
    auto message = std::make_shared<Message>(Message{data});
    {
      const std::lock_guard lock(room_->mail_mutex);
      room_->mail[{rank_, to, tag}].push_back(message);
    }
    room_->world.signal.notify();
    sends_.push_back({kMail + mail_++, to, tag, std::move(message)});
    return {*this, sends_.back().ticket};
  }
  Pending recv(Payload data, int from, int tag) override {
    recvs_.push_back({kMail + mail_++, data, from, tag});
    return {*this, recvs_.back().ticket};
  }

  std::unique_ptr<Communicator> group(const std::vector<int>& ranks) override {
    std::vector<int> members;
    int own = -1;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      members.push_back(room_->members[static_cast<std::size_t>(ranks[i])]);
      if (ranks[i] == rank_) own = static_cast<int>(i);
    }
    check(own >= 0, "a rank is in its own group");
    const std::lock_guard lock(room_->world.mutex);
    auto& room = room_->world.rooms[{room_.get(), groups_++, members}];
    if (!room) room = std::make_shared<Room>(members, room_->world);
    return std::make_unique<ThreadCommunicator>(room, own);
  }

  Bytes received() const override { return {room_->counters[static_cast<std::size_t>(rank_)].received.load()}; }

  void progress() override {
    if (moved_ < next_) finish(next_ - 1, false);
  }

 protected:
  bool finish(std::uint64_t ticket, bool block) override {
    if (ticket >= kMail) return finish_mail(ticket, block);
    while (moved_ <= ticket) {
      const std::uint64_t operation = moved_;
      if (!wait_for([&] { return room_->all(&Room::Counters::posted, operation); }, block,
                    [&] { return describe_missing(operation); }))
        return false;
      move(operation);
      room_->counters[static_cast<std::size_t>(rank_)].moved.store(++moved_);
      room_->world.signal.notify();
    }
    // The others may still read this rank's buffers.
    return wait_for([&] { return room_->all(&Room::Counters::moved, ticket); }, block,
                    [&] { return describe_missing(ticket); });
  }

  void abandon() noexcept override {
    room_->world.fail();
    while (room_->world.copying.load() > 0) std::this_thread::yield();
  }

 private:
  static constexpr std::uint64_t kMail = std::uint64_t{1} << 63;
  struct Sent {
    std::uint64_t ticket;
    int to, tag;
    std::shared_ptr<Message> message;
  };
  struct Expected {
    std::uint64_t ticket;
    Payload data;
    int from, tag;
  };

  Pending start(Post post) {
    const std::uint64_t operation = next_++;
    if (size() == 1) move_alone(post);
    if (operation >= Room::kWindow) {
      const std::uint64_t oldest = operation - Room::kWindow;
      finish(oldest, true);
    }
    room_->post(operation, rank_) = std::move(post);
    room_->counters[static_cast<std::size_t>(rank_)].posted.store(operation + 1);
    room_->world.signal.notify();
    return {*this, operation};
  }

  // Waits for a condition that other ranks bring about; ends with an error when one of them has failed, or when the
  // time is over: what() then says in which operation.
  template <class Done, class What>
  bool wait_for(const Done& done, bool block, const What& what) {
    World& world = room_->world;
    if (done()) return true;
    if (world.failed) throw PeerFailed("another rank ended");
    if (!block) return false;
    const bool finished =
        world.signal.wait([&] { return done() || world.failed.load(); }, world.options.spin, world.options.timeout);
    if (!finished)
      throw CommError(str("rank ", world_rank(rank_), " waited ", human(world.options.timeout), " in ", what()));
    if (!done()) throw PeerFailed("another rank ended");
    return true;
  }

  std::string describe_missing(std::uint64_t operation) {
    std::string missing;
    for (int q = 0; q < size(); ++q)
      if (room_->counters[static_cast<std::size_t>(q)].posted.load() <= operation)
        missing += str(missing.empty() ? "" : ", ", world_rank(q));
    return str(describe(room_->post(operation, rank_)), ", number ", operation, " of its group; missing: rank ",
               missing.empty() ? "none (a peer is still copying)" : missing);
  }

  int world_rank(int rank) const { return room_->members[static_cast<std::size_t>(rank)]; }

  void count(int receiver, std::int64_t elements, DType dtype) {
    room_->counters[static_cast<std::size_t>(receiver)].received.fetch_add(elements * size_of(dtype),
                                                                           std::memory_order_relaxed);
  }

  void copy(void* to, std::int64_t to_at, const void* from, std::int64_t from_at, std::int64_t elements, DType dtype) {
    const std::int64_t unit = size_of(dtype);
    const bool in_place = static_cast<char*>(to) + to_at * unit == static_cast<const char*>(from) + from_at * unit;
    if (elements > 0 && !in_place)
      std::memcpy(static_cast<char*>(to) + to_at * unit, static_cast<const char*>(from) + from_at * unit,
                  static_cast<std::size_t>(elements * unit));
  }

  void move_alone(const Post& p) {
    if (p.in.data != p.out.data) copy(p.out.data, 0, p.in.data, 0, p.out.count, p.out.dtype);
  }

  // All ranks must come with the same thing. The lowest rank's is the measure, so every rank gives the same verdict.
  void compare(std::uint64_t operation) {
    const Post& first = room_->post(operation, 0);
    for (int q = 1; q < size(); ++q) {
      const Post& p = room_->post(operation, q);
      const std::int64_t a = first.what == What::kAllGather ? first.out.count : first.in.count,
                         b = p.what == What::kAllGather ? p.out.count : p.in.count;
      const bool counts_differ = first.what != What::kAllToAll && a != b;
      if (p.what == first.what && p.in.dtype == first.in.dtype && p.root == first.root && !counts_differ) continue;
      throw CommError(str("ranks differ in collective ", operation, " of their group: rank ", world_rank(0), " brings ",
                          describe(first), ", rank ", world_rank(q), " ", describe(p)));
    }
  }

  // This rank's part of an operation that all ranks have announced. Reads the others' buffers; writes only places that
  // nobody else reads or writes meanwhile: its own output, and for all_reduce slice `rank` of every buffer.
  void move(std::uint64_t operation) {
    const Copying copying(room_->world);
    compare(operation);
    const Post& own = room_->post(operation, rank_);
    const int n = size();
    if (n == 1) return;
    switch (own.what) {
      case What::kAllReduce:
        reduce(operation, slice_of(own.in.count, n, rank_), true);
        break;
      case What::kReduceScatter:
        reduce(operation, slice_of(own.in.count, n, rank_), false);
        break;
      case What::kAllGather:
        for (int q = 0; q < n; ++q) {
          const Post& p = room_->post(operation, q);
          const Slice slice = slice_of(own.out.count, n, q);
          copy(own.out.data, slice.begin, p.in.data, 0, slice.size(), own.out.dtype);
          if (q != rank_) count(rank_, slice.size(), own.out.dtype);
        }
        break;
      case What::kAllToAll: {
        std::int64_t to = 0;
        for (int q = 0; q < n; ++q) {
          const Post& p = room_->post(operation, q);
          std::int64_t from = 0;
          for (int r = 0; r < rank_; ++r) from += p.in_counts[static_cast<std::size_t>(r)];
          const std::int64_t elements = p.in_counts[static_cast<std::size_t>(rank_)],
                             expected = own.out_counts[static_cast<std::size_t>(q)];
          if (elements != expected)
            throw CommError(str("ranks differ in all_to_all ", operation, ": rank ", world_rank(q), " sends ", elements,
                                " elements to rank ", world_rank(rank_), ", which expects ", expected));
          copy(own.out.data, to, p.in.data, from, elements, own.out.dtype);
          if (q != rank_) count(rank_, elements, own.out.dtype);
          to += elements;
        }
        break;
      }
      case What::kBroadcast:
        if (rank_ != own.root) {
          copy(own.in.data, 0, room_->post(operation, own.root).in.data, 0, own.in.count, own.in.dtype);
          count(rank_, own.in.count, own.in.dtype);
        }
        break;
      case What::kBarrier:
        break;
    }
  }

  void reduce(std::uint64_t operation, Slice slice, bool to_all) {
    switch (room_->post(operation, rank_).in.dtype) {
      case DType::kF32:
        return reduce_as<float>(operation, slice, to_all);
      case DType::kF64:
        return reduce_as<double>(operation, slice, to_all);
      case DType::kI32:
        return reduce_as<std::int32_t>(operation, slice, to_all);
      case DType::kI64:
        return reduce_as<std::int64_t>(operation, slice, to_all);
    }
  }

  template <class T>
  void reduce_as(std::uint64_t operation, Slice slice, bool to_all) {
    std::vector<const T*> parts;
    std::vector<T*> to;
    for (int q = 0; q < size(); ++q) {
      const Post& p = room_->post(operation, q);
      parts.push_back(static_cast<const T*>(p.in.data) + slice.begin);
      if (to_all) to.push_back(static_cast<T*>(p.out.data) + slice.begin);
      if (to_all && q != rank_) count(q, slice.size(), p.in.dtype);
    }
    if (!to_all) to.push_back(static_cast<T*>(room_->post(operation, rank_).out.data));
    count(rank_, (size() - 1) * slice.size(), dtype_of<T>::value);
    sum_slice<T>(parts, to, slice.size());
  }

  bool finish_mail(std::uint64_t ticket, bool block) {
    for (std::size_t i = 0; i < recvs_.size(); ++i) {
      if (recvs_[i].ticket != ticket) continue;
      const Expected e = recvs_[i];
      // Messages of one sender and tag arrive in the order in which they were asked for.
      for (std::size_t earlier = 0; earlier < i; ++earlier)
        if (recvs_[earlier].from == e.from && recvs_[earlier].tag == e.tag) {
          if (!finish_mail(recvs_[earlier].ticket, block)) return false;
          return finish_mail(ticket, block);
        }
      std::shared_ptr<Message> message;
      const auto arrived = [&] {
        const std::lock_guard lock(room_->mail_mutex);
        auto& queue = room_->mail[{e.from, rank_, e.tag}];
        if (queue.empty()) return false;
        if (!message) message = queue.front(), queue.pop_front();
        return true;
      };
      const auto take = [&] { return message || arrived(); };
      if (!wait_for(take, block, [&] { return str("recv from rank ", world_rank(e.from), ", tag ", e.tag); }))
        return false;
      if (message->data.count != e.data.count || message->data.dtype != e.data.dtype)
        throw CommError(str("ranks differ in a message, tag ", e.tag, ": rank ", world_rank(e.from), " sends ",
                            message->data.count, " x ", name_of(message->data.dtype), ", rank ", world_rank(rank_),
                            " expects ", e.data.count, " x ", name_of(e.data.dtype)));
      {
        const Copying copying(room_->world);
        copy(e.data.data, 0, message->data.data, 0, e.data.count, e.data.dtype);
      }
      count(rank_, e.data.count, e.data.dtype);
      {
        const std::lock_guard lock(room_->mail_mutex);
        message->taken = true;
      }
      room_->world.signal.notify();
      recvs_.erase(recvs_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    for (std::size_t i = 0; i < sends_.size(); ++i) {
      if (sends_[i].ticket != ticket) continue;
      const auto taken = [&, message = sends_[i].message] {
        const std::lock_guard lock(room_->mail_mutex);
        return message->taken;
      };
      if (!wait_for(taken, block,
                    [&] { return str("send to rank ", world_rank(sends_[i].to), ", tag ", sends_[i].tag); }))
        return false;
      sends_.erase(sends_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return true;
  }

  std::shared_ptr<Room> room_;
  int rank_;
  std::uint64_t next_ = 0, moved_ = 0, mail_ = 0;
  int groups_ = 0;
  std::vector<Sent> sends_;
  std::vector<Expected> recvs_;
};

}  // namespace

void run_threads(int ranks, const std::function<void(Communicator&)>& body, ThreadOptions options) {
  check(ranks >= 1, "a run has a rank");
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (options.spin < 0) options.spin = ranks <= cores ? 2000 : 50;
  World world(options);
  std::vector<int> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  auto room = std::make_shared<Room>(members, world);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto run = [&](int rank) {
    try {
      ThreadCommunicator communicator(room, rank);
      body(communicator);
    } catch (...) {
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      world.fail();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int r = 1; r < ranks; ++r) threads.emplace_back(run, r);
    run(0);
  } catch (const std::system_error& e) {
    errors[0] = std::make_exception_ptr(InvalidInput(
        str("this machine cannot start ", ranks, " threads for the ranks (", e.what(), "); use fewer --ranks"),
        ExitCode::kDoesNotFit));
    world.fail();
  }
  for (std::thread& thread : threads) thread.join();
  // Reasons come before their consequences: the lowest rank's own error, else any.
  std::exception_ptr reason;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const PeerFailed&) {
      if (!reason) reason = error;
    } catch (...) {
      reason = error;
      break;
    }
  }
  if (reason) std::rethrow_exception(reason);
  // No error, and yet the run was ended: an operation was started and dropped.
  if (world.failed) throw CommError("a started operation was never waited for");
}

}  // namespace sextant
