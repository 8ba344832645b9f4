#include "sextant/runtime/comm/fabric.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xbf58476d1ce4e5b9ULL;
  return hash ^ (hash >> 31);
}

std::uint64_t group_id(std::uint64_t parent, std::uint64_t number, const std::vector<int>& members) {
  std::uint64_t id = mix(parent, number);
  for (const int m : members) id = mix(id, static_cast<std::uint64_t>(m));
  return id == 0 ? 1 : id;
}

// sum[i] = parts[0][i] + parts[1][i] + ... (or another `join` in place of +); written to every one of `to`. In blocks,
// so that a block stays in cache.
template <class T>
void combine_slice(std::span<const T* const> parts, std::span<T* const> to, std::int64_t count, const auto& join) {
  constexpr std::int64_t kBlock = 2048;
  T sum[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const T *a = parts[0] + begin, *b = parts[1] + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sum[i] = join(a[i], b[i]);
    for (std::size_t p = 2; p < parts.size(); ++p) {
      const T* more = parts[p] + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) sum[i] = join(sum[i], more[i]);
    }
    for (T* out : to) std::memcpy(out + begin, sum, static_cast<std::size_t>(n) * sizeof(T));
  }
}

std::int64_t bytes_of(const Payload& p) { return p.count * size_of(p.dtype); }
std::byte* at(const Payload& p, std::int64_t element) {
  return static_cast<std::byte*>(p.data) + element * size_of(p.dtype);
}
bool overlap(const Payload& a, const Payload& b) {
  return a.count > 0 && b.count > 0 && at(a, 0) < at(b, b.count) && at(b, 0) < at(a, a.count);
}
void copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
std::int64_t sum_before(const std::int64_t* counts, int rank) {
  std::int64_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += counts[r];
  return sum;
}

/// While one exists, buffers of other ranks may be touched; none comes to be once the run has failed.
class Copying {
 public:
  explicit Copying(Endpoint& end) : status_(end.status()) {
    status_.copying.store(1);
    if (!end.failed()) return;
    status_.copying.store(0);
    throw PeerFailed("another rank ended");
  }
  ~Copying() { status_.copying.store(0); }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  Status& status_;
};

}  // namespace

Fabric::Fabric(Endpoint& end, std::uint64_t id, std::vector<int> members)
    : end_(end), id_(id), members_(std::move(members)), desk_(end.new_desk()) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const int world_rank = members_[i];
    Peer p;
    p.world_rank = world_rank;
    if (world_rank == end.rank()) {
      rank_ = static_cast<int>(i);
      p.desk = desk_;
    } else if (!end.neighbour(world_rank).status) {
      p.is_remote = has_remote_ = true;
      p.mirror = std::make_unique<Desk>();
      p.desk = p.mirror.get();
    } else {
      p.shift = end.neighbour(world_rank).shift;
      has_neighbours_ = true;
    }
    peers_.push_back(std::move(p));
  }
  check(rank_ >= 0, "a rank is in its own group");
  // Others find the desk by the group's number.
  auto& groups = end.status().groups;
  const auto free = std::find_if(groups.begin(), groups.end(), [](const auto& g) { return g.group.load() == 0; });
  check(free != groups.end(), "a rank has at most 4096 groups");
  free->desk.store(desk_);
  free->group.store(id_);
  for (const Peer& p : peers_)
    if (!p.is_remote && p.world_rank != end.rank()) ring(*end.status_of(p.world_rank));
  end.add(id_, *this);
}

Fabric::~Fabric() { end_.remove(id_); }

std::unique_ptr<Communicator> Fabric::world(Endpoint& end) {
  std::vector<int> members;
  for (int r = 0; r < end.world_size(); ++r) members.push_back(r);
  const std::uint64_t id = group_id(1, end.next_world(), members);
  return std::make_unique<Fabric>(end, id, std::move(members));
}

std::unique_ptr<Communicator> Fabric::group(const std::vector<int>& ranks) {
  std::vector<int> members;
  for (const int r : ranks) members.push_back(members_.at(static_cast<std::size_t>(r)));
  const std::uint64_t number = groups_[members]++;  // groups of equal members are still different ones
  const std::uint64_t id = group_id(id_, number, members);
  return std::make_unique<Fabric>(end_, id, std::move(members));
}

int Fabric::ranks_here() const {
  return static_cast<int>(std::count_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.is_remote; }));
}

bool Fabric::is_here(int rank) {
  Peer& p = peer(rank);
  if (p.desk) return true;
  for (auto& announced : end_.status_of(p.world_rank)->groups) {
    const std::uint64_t group = announced.group.load();
    if (group == 0) return false;
    if (group != id_) continue;
    p.desk = reinterpret_cast<Desk*>(reinterpret_cast<std::byte*>(announced.desk.load()) + p.shift);
    return true;
  }
  return false;
}

void Fabric::ring_all() {
  for (const Peer& p : peers_)
    if (!p.is_remote && p.world_rank != end_.rank()) ring(*end_.status_of(p.world_rank));
}

Fingerprint Fabric::print(What what, const Payload& data, std::int64_t count, int root, const Site& site) const {
  Fingerprint print{what, data.dtype, root, count, {}};
  site.text().copy(print.site, sizeof print.site - 1);
  return print;
}

Pending Fabric::all_reduce(Payload data, Site site) {
  return start(print(What::kAllReduce, data, data.count, 0, site), data, data);
}
Pending Fabric::all_reduce_max(Payload data, Site site) {
  return start(print(What::kAllReduceMax, data, data.count, 0, site), data, data);
}
Pending Fabric::reduce_scatter(Payload in, Payload out, Site site) {
  check(out.count == slice_of(in.count, size(), rank_).size(), "reduce_scatter yields the own slice");
  check(in.dtype == out.dtype, "both buffers of a collective hold one type");
  const Slice own = slice_of(in.count, size(), rank_);
  check(size() == 1 || !overlap(in, out) || out.data == at(in, own.begin),
        "reduce_scatter's own slice lies in its place, or elsewhere");
  return start(print(What::kReduceScatter, in, in.count, 0, site), in, out);
}
Pending Fabric::all_gather(Payload in, Payload out, Site site) {
  const Slice own = slice_of(out.count, size(), rank_);
  check(in.count == own.size(), "all_gather brings the own slice");
  check(in.dtype == out.dtype, "both buffers of a collective hold one type");
  check(!overlap(in, out) || in.data == at(out, own.begin), "all_gather's own slice lies in its place, or elsewhere");
  return start(print(What::kAllGather, in, out.count, 0, site), in, out);
}
Pending Fabric::all_to_all(Payload in, std::vector<std::int64_t> in_counts, Payload out,
                           std::vector<std::int64_t> out_counts, Site site) {
  check(static_cast<int>(in_counts.size()) == size() && static_cast<int>(out_counts.size()) == size(),
        "all_to_all has a count for every rank");
  const auto sum = [](const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  check(sum(in_counts) == in.count && sum(out_counts) == out.count,
        "the counts of all_to_all are those of its buffers");
  check(in.dtype == out.dtype, "both buffers of a collective hold one type");
  check(!overlap(in, out), "the buffers of all_to_all do not overlap");
  return start(print(What::kAllToAll, in, 0, 0, site), in, out, std::move(in_counts), std::move(out_counts));
}
Pending Fabric::broadcast(Payload data, int root, Site site) {
  check(root >= 0 && root < size(), "the root is a rank of the group");
  return start(print(What::kBroadcast, data, data.count, root, site), data, data);
}
Pending Fabric::barrier(Site site) { return start(print(What::kBarrier, {}, 0, 0, site), {}, {}); }

Fabric::Reached Fabric::reach(Payload data) {
  Reached s{data, data, {}};
  if (data.count == 0 || !has_neighbours_ || end_.is_shown(data.data)) return s;
  s.copy.emplace(end_.memory({bytes_of(data)}));
  s.reached.data = s.copy->data();
  copy(s.reached.data, data.data, bytes_of(data));
  return s;
}

Pending Fabric::start(Fingerprint print, Payload in, Payload out, std::vector<std::int64_t> in_counts,
                      std::vector<std::int64_t> out_counts) {
  if (next_ - done_ >= Desk::kWindow) {
    const std::uint64_t oldest = done_;
    finish(oldest, true);
  }
  const std::uint64_t number = next_++;
  Collective& c = operations_.emplace_back();
  const bool alone = size() == 1;
  // Others write into the buffer of an all_reduce and read that of a broadcast: one buffer, whatever it is copied to.
  const bool in_place = is_all_reduce(print.what) || print.what == What::kBroadcast;
  c.in = alone ? Reached{in, in, {}} : reach(in);
  c.out = Reached{out, in_place ? c.in.reached : out, {}};  // otherwise nobody else touches it
  c.in_counts = std::move(in_counts), c.out_counts = std::move(out_counts);
  c.post = {print, c.in.reached, c.out.reached, c.in_counts.data(), c.out_counts.data()};
  if (!c.in_counts.empty() && !end_.is_shown(c.in_counts.data())) {
    const auto bytes = static_cast<std::int64_t>(c.in_counts.size() * sizeof(std::int64_t));
    c.counts.emplace(end_.memory({bytes}));
    copy(c.counts->data(), c.in_counts.data(), bytes);
    c.post.in_counts = reinterpret_cast<const std::int64_t*>(c.counts->data());
  }
  c.record = end_.record({id_, number, print, steady_seconds(), 0});
  if (alone) {
    if (in.data != out.data) copy(out.data, in.data, bytes_of(out));
  }
  desk_->posts[number % Desk::kWindow] = c.post;
  desk_->posted.store(number + 1);
  ring_all();
  if (has_remote_)
    for (int q = 0; q < size(); ++q) {
      if (!peer(q).is_remote) continue;
      Note note{Note::Kind::kPost, id_, number, print, 0, 0, end_.wire()->new_channel(peer(q).world_rank), 0};
      if (print.what == What::kAllToAll) {
        note.to_you = c.in_counts[static_cast<std::size_t>(q)];
        note.from_you = c.out_counts[static_cast<std::size_t>(q)];
      }
      c.channels.push_back(note.channel);
      end_.post_note(peer(q).world_rank, note);
    }
  return {*this, number};
}

void Fabric::take_note(int from, const Note& note) {
  const auto found = std::find(members_.begin(), members_.end(), from);
  check(found != members_.end(), "a note comes from a member of its group");
  Peer& p = peer(static_cast<int>(found - members_.begin()));
  if (note.kind == Note::Kind::kLetter) {
    p.letters.push_back(note);
    return;
  }
  p.notes.push_back(note);
  load_notes(p);
}

void Fabric::load_notes(Peer& p) {
  while (!p.notes.empty() && p.notes.front().number < done_ + Desk::kWindow) {
    const Note& note = p.notes.front();
    Post& post = p.mirror->posts[note.number % Desk::kWindow];
    post = {};
    post.print = note.print;
    p.posts[note.number % Desk::kWindow] = note;
    p.mirror->posted.store(note.number + 1);
    p.notes.pop_front();
  }
}

bool Fabric::all_posted(std::uint64_t number) {
  for (int q = 0; q < size(); ++q)
    if (!is_here(q) || peer(q).desk->posted.load() <= number) return false;
  return true;
}
bool Fabric::all_moved(std::uint64_t number) {
  for (int q = 0; q < size(); ++q)
    if (!peer(q).is_remote && peer(q).desk->moved.load() <= number) return false;
  return true;
}
// The world rank that a collective waits for.
int Fabric::first_missing(std::uint64_t number) {
  if (number >= next_) return -1;  // all is done meanwhile
  for (int q = 0; q < size(); ++q)
    if (q != rank_ && (!is_here(q) || peer(q).desk->posted.load() <= number)) return peer(q).world_rank;
  // Its own part waits for messages only; who has done it, for the parts of the others here. So two ranks of a node
  // that both wait for another node do not seem to wait for each other.
  if (number >= moved_) {
    const auto& requests = operation(number).requests;
    return requests.empty() ? -1 : peer(requests.back().second).world_rank;
  }
  for (int q = 0; q < size(); ++q)
    if (q != rank_ && !peer(q).is_remote && peer(q).desk->moved.load() <= number) return peer(q).world_rank;
  return -1;
}

std::string Fabric::members_text() const {
  std::vector<std::string> names;
  for (const int m : members_) {
    if (names.size() == 16) {
      names.push_back(str("... ", members_.size(), " ranks"));
      break;
    }
    names.push_back(str(m));
  }
  return join(names, ", ");
}

std::string Fabric::words(std::uint64_t number) {
  return str(describe(desk_->posts[number % Desk::kWindow].print), ", number ", number, " of ranks ", members_text());
}

bool Fabric::finish(std::uint64_t ticket, bool block) {
  if (ticket >= kMail) {
    const auto is_open = [&] {
      return std::any_of(sends_.begin(), sends_.end(), [&](const Sent& s) { return s.ticket == ticket; }) ||
             std::any_of(recvs_.begin(), recvs_.end(), [&](const Expected& e) { return e.ticket == ticket; });
    };
    const auto find = [&]() -> std::pair<int, std::string> {
      for (const Sent& s : sends_)
        if (s.ticket == ticket)
          return {peer(s.to).world_rank, str("send to rank ", peer(s.to).world_rank, ", tag ", s.tag, s.site)};
      for (const Expected& e : recvs_)
        if (e.ticket == ticket)
          return {peer(e.from).world_rank, str("recv from rank ", peer(e.from).world_rank, ", tag ", e.tag, e.site)};
      return {-1, ""};
    };
    if (!block) {
      end_.progress();
      if (end_.failed() && is_open()) throw PeerFailed("another rank ended");
      return !is_open();
    }
    end_.wait([&] { return !is_open(); }, [&] { return find().first; }, [&] { return find().second; });
    return true;
  }
  if (!block) {
    end_.progress();
    if (end_.failed() && ticket >= done_) throw PeerFailed("another rank ended");
    return ticket < done_;
  }
  const auto current = [&] { return moved_ <= ticket ? moved_ : done_; };
  end_.wait([&] { return ticket < done_; }, [&] { return first_missing(current()); }, [&] { return words(current()); });
  return true;
}

void Fabric::advance() {
  if (has_remote_)
    for (Peer& p : peers_)
      if (p.is_remote) load_notes(p);
  while (moved_ < next_ && move(moved_)) {
    desk_->moved.store(++moved_);
    ring_all();
  }
  while (done_ < moved_ && all_moved(done_)) {
    Collective& c = operations_.front();
    const What what = c.post.print.what;
    if (c.in.copy && (is_all_reduce(what) || what == What::kBroadcast))
      copy(c.out.user.data, c.in.reached.data, bytes_of(c.out.user));
    end_.finish_record(c.record);
    operations_.pop_front();
    ++done_;
  }
  if (!sends_.empty()) advance_sends();
  if (!recvs_.empty()) advance_receives();
}

// This rank's part of a collective; true once done. Reads the others' buffers; writes only places that nobody else
// reads or writes meanwhile: its own output, and for all_reduce slice `rank` of every buffer of this node.
bool Fabric::move(std::uint64_t number) {
  Collective& c = operation(number);
  using Stage = Collective::Stage;
  if (c.stage == Stage::kPosted) {
    if (!all_posted(number)) return false;
    if (size() == 1) return true;
    compare(number);
    exchange(number);
    c.stage = Stage::kExchanging;
  }
  if (c.stage == Stage::kExchanging) {
    if (!requests_done(c)) return false;
    spread(number);
    c.stage = Stage::kSpreading;
  }
  if (c.stage == Stage::kSpreading) {
    if (!requests_done(c)) return false;
    c.stage = Stage::kMoved;
  }
  return true;
}

bool Fabric::requests_done(Collective& c) {
  while (!c.requests.empty() && end_.wire()->done(c.requests.back().first)) {
    c.requests.pop_back();
    end_.heard();
  }
  return c.requests.empty();
}

void Fabric::count(int rank, std::int64_t elements, DType dtype) {
  peer(rank).desk->received.fetch_add(elements * size_of(dtype), std::memory_order_relaxed);
}

// All ranks must come with the same thing. What most of them bring is the measure, the lowest rank's among equals, so
// every rank gives the same verdict.
void Fabric::compare(std::uint64_t number) {
  const auto same = [](const Fingerprint& a, const Fingerprint& b) {
    return a.what == b.what && a.dtype == b.dtype && a.root == b.root && a.count == b.count &&
           std::strcmp(a.site, b.site) == 0;
  };
  const Fingerprint& mine = post(number, rank_).print;
  bool all_same = true;
  for (int q = 0; q < size(); ++q) all_same = all_same && same(mine, post(number, q).print);
  if (all_same) {
    if (mine.what == What::kAllToAll) compare_counts(number);
    return;
  }
  int measure = 0, most = 0;
  for (int q = 0; q < size(); ++q) {
    int votes = 0;
    for (int r = 0; r < size(); ++r) votes += same(post(number, q).print, post(number, r).print);
    if (votes > most) measure = q, most = votes;
  }
  const Fingerprint a = post(number, measure).print;
  int odd = 0;
  while (same(a, post(number, odd).print)) ++odd;
  const Fingerprint b = post(number, odd).print;
  const Cause cause = std::strcmp(a.site, b.site) != 0 ? Cause::kOrder
                      : a.what != b.what               ? Cause::kKind
                      : a.dtype != b.dtype             ? Cause::kDtype
                      : a.count != b.count             ? Cause::kCount
                                                       : Cause::kRoot;
  end_.accuse(cause, peer(odd).world_rank,
              str("collective ", number, " of ranks ", members_text(), ": rank ", peer(odd).world_rank, " brings ",
                  describe(b), ", rank ", peer(measure).world_rank, " ", describe(a)));
}

void Fabric::compare_counts(std::uint64_t number) {
  const Collective& c = operation(number);
  std::vector<std::int64_t> sent;
  {
    const Copying copying(end_);
    for (int q = 0; q < size(); ++q)
      sent.push_back(q == rank_ ? c.in_counts[static_cast<std::size_t>(q)]
                     : peer(q).is_remote
                         ? peer(q).posts[number % Desk::kWindow].to_you
                         : reinterpret_cast<const std::int64_t*>(theirs(q, post(number, q).in_counts))[rank_]);
  }
  for (int q = 0; q < size(); ++q) {
    const std::int64_t expected = c.out_counts[static_cast<std::size_t>(q)];
    if (sent[static_cast<std::size_t>(q)] == expected) continue;
    end_.accuse(Cause::kCount, peer(q).world_rank,
                str("collective ", number, " of ranks ", members_text(), ", ", describe(c.post.print), ": rank ",
                    peer(q).world_rank, " sends ", sent[static_cast<std::size_t>(q)], " elements to rank ", end_.rank(),
                    ", which expects ", expected));
  }
}

// Starts what crosses nodes, and does what needs nothing from there.
void Fabric::exchange(std::uint64_t number) {
  Collective& c = operation(number);
  const Copying copying(end_);
  const Post& own = c.post;
  const DType dtype = own.in.dtype;
  const int n = size();
  const std::int64_t unit = size_of(dtype);
  const auto send = [&](int q, const void* data, std::int64_t elements) {
    if (elements > 0)
      c.requests.emplace_back(end_.wire()->send(peer(q).world_rank, data, elements * unit, c.channels[remote_index(q)]),
                              q);
  };
  const auto receive = [&](int q, void* data, std::int64_t elements) {
    if (elements > 0)
      c.requests.emplace_back(end_.wire()->receive(peer(q).world_rank, data, elements * unit,
                                                   peer(q).posts[number % Desk::kWindow].channel),
                              q);
    count(rank_, elements, dtype);
  };
  switch (own.print.what) {
    case What::kAllReduce:
    case What::kAllReduceMax:
    case What::kReduceScatter: {
      const Slice mine = slice_of(own.in.count, n, rank_);
      c.parts.resize(static_cast<std::size_t>(mine.size() * unit * (n - ranks_here())));
      std::byte* to = c.parts.data();
      for (int q = 0; q < n; ++q) {
        if (!peer(q).is_remote) continue;
        const Slice slice = slice_of(own.in.count, n, q);
        send(q, at(own.in, slice.begin), slice.size());
        receive(q, to, mine.size());
        to += mine.size() * unit;
      }
      break;
    }
    case What::kAllGather:
      for (int q = 0; q < n; ++q) {
        const Slice slice = slice_of(own.out.count, n, q);
        if (peer(q).is_remote) {
          send(q, own.in.data, own.in.count);
          receive(q, at(own.out, slice.begin), slice.size());
          continue;
        }
        copy(at(own.out, slice.begin), theirs(q, post(number, q).in.data), slice.size() * unit);
        if (q != rank_) count(rank_, slice.size(), dtype);
      }
      break;
    case What::kAllToAll: {
      std::int64_t to = 0;
      for (int q = 0; q < n; ++q) {
        const std::int64_t elements = c.out_counts[static_cast<std::size_t>(q)];
        if (peer(q).is_remote) {
          send(q, at(own.in, sum_before(c.in_counts.data(), q)), c.in_counts[static_cast<std::size_t>(q)]);
          receive(q, at(own.out, to), elements);
        } else {
          const auto* counts = reinterpret_cast<const std::int64_t*>(theirs(q, post(number, q).in_counts));
          const Payload in = post(number, q).in;
          copy(at(own.out, to), theirs(q, at(in, sum_before(counts, rank_))), elements * unit);
          if (q != rank_) count(rank_, elements, dtype);
        }
        to += elements;
      }
      break;
    }
    case What::kBroadcast:
      if (rank_ == own.print.root) {
        for (int q = 0; q < n; ++q)
          if (peer(q).is_remote) send(q, own.in.data, own.in.count);
      } else if (peer(own.print.root).is_remote) {
        receive(own.print.root, own.in.data, own.in.count);
      } else {
        copy(own.in.data, theirs(own.print.root, post(number, own.print.root).in.data), own.in.count * unit);
        count(rank_, own.in.count, dtype);
      }
      break;
    case What::kBarrier:
    case What::kSend:
    case What::kRecv:
      break;
  }
}

// Sums up, and gives the sum to those who need it.
void Fabric::spread(std::uint64_t number) {
  const Post& own = operation(number).post;
  if (!is_all_reduce(own.print.what) && own.print.what != What::kReduceScatter) return;
  switch (own.in.dtype) {
    case DType::kF32:
      return reduce_as<float>(number);
    case DType::kF64:
      return reduce_as<double>(number);
    case DType::kI32:
      return reduce_as<std::int32_t>(number);
    case DType::kI64:
      return reduce_as<std::int64_t>(number);
    case DType::kBf16:
    case DType::kU8:
      throw InternalError("sums of this type are not taken");
  }
}

template <class T>
void Fabric::reduce_as(std::uint64_t number) {
  Collective& c = operation(number);
  const Copying copying(end_);
  const Post& own = c.post;
  const bool to_all = is_all_reduce(own.print.what);
  const Slice mine = slice_of(own.in.count, size(), rank_);
  std::vector<const T*> parts;
  std::vector<T*> to;
  const T* sent = reinterpret_cast<const T*>(c.parts.data());
  for (int q = 0; q < size(); ++q) {
    if (peer(q).is_remote) {
      parts.push_back(sent);
      sent += mine.size();
      continue;
    }
    const Post& p = post(number, q);
    parts.push_back(reinterpret_cast<const T*>(theirs(q, p.in.data)) + mine.begin);
    if (to_all) to.push_back(const_cast<T*>(reinterpret_cast<const T*>(theirs(q, p.out.data))) + mine.begin);
    if (q == rank_) continue;
    count(rank_, mine.size(), own.in.dtype);
    if (to_all) count(q, mine.size(), own.in.dtype);
  }
  if (!to_all) to.push_back(static_cast<T*>(own.out.data));
  if (own.print.what == What::kAllReduceMax)
    combine_slice<T>(parts, to, mine.size(), [](T a, T b) { return b > a ? b : a; });
  else
    combine_slice<T>(parts, to, mine.size(), [](T a, T b) { return a + b; });
  if (!to_all || !has_remote_) return;
  for (int q = 0; q < size(); ++q) {
    if (!peer(q).is_remote) continue;
    const Slice slice = slice_of(own.in.count, size(), q);
    if (mine.size() > 0)
      c.requests.emplace_back(end_.wire()->send(peer(q).world_rank, at(own.out, mine.begin),
                                                mine.size() * size_of(own.in.dtype), c.channels[remote_index(q)]),
                              q);
    if (slice.size() > 0)
      c.requests.emplace_back(
          end_.wire()->receive(peer(q).world_rank, at(own.out, slice.begin), slice.size() * size_of(own.in.dtype),
                               peer(q).posts[number % Desk::kWindow].channel),
          q);
    count(rank_, slice.size(), own.in.dtype);
  }
}

std::size_t Fabric::remote_index(int rank) const {
  std::size_t index = 0;
  for (int q = 0; q < rank; ++q) index += peers_[static_cast<std::size_t>(q)].is_remote;
  return index;
}

namespace {

std::string at_site(const Fingerprint& print) { return print.site[0] ? str(" at ", print.site) : ""; }

}  // namespace

Pending Fabric::send(Payload data, int to, int tag, Site site) {
  check(to >= 0 && to < size(), "a message goes to a rank of the group");
  const Fingerprint p = print(What::kSend, data, data.count, to, site);
  Sent sent{kMail + mail_++,
            0,
            to,
            tag,
            {data, data, {}},
            peer(to).is_remote,
            end_.record({id_, mail_, p, steady_seconds(), 0}),
            at_site(p)};
  if (sent.is_remote) {
    const int world_rank = peer(to).world_rank;
    Note note{Note::Kind::kLetter, id_, 0, p, 0, 0, end_.wire()->new_channel(world_rank), tag};
    end_.post_note(world_rank, note);
    sent.number = end_.wire()->send(world_rank, data.data, bytes_of(data), note.channel);
  } else {
    sent.data = reach(data);
    sent.number = desk_->sent.load();
    end_.wait([&] { return desk_->sent.load() - desk_->settled.load() < Desk::kLetters; },
              [&] { return peer(desk_->letters[desk_->settled.load() % Desk::kLetters].to).world_rank; },
              [&] { return str("send to rank ", peer(to).world_rank, ", behind ", Desk::kLetters, " others"); });
    Letter& letter = desk_->letters[sent.number % Desk::kLetters];
    letter.number.store(sent.number);
    letter.to.store(to), letter.tag.store(tag);
    letter.data = sent.data.reached;
    letter.state.store(Letter::kPosted);
    desk_->sent.store(sent.number + 1);
    if (to != rank_) ring(*end_.status_of(peer(to).world_rank));
  }
  sends_.push_back(std::move(sent));
  return {*this, sends_.back().ticket};
}

Pending Fabric::recv(Payload data, int from, int tag, Site site) {
  check(from >= 0 && from < size(), "a message comes from a rank of the group");
  const Fingerprint p = print(What::kRecv, data, data.count, from, site);
  recvs_.push_back(
      {kMail + mail_++, data, from, tag, {}, end_.record({id_, mail_, p, steady_seconds(), 0}), at_site(p)});
  return {*this, recvs_.back().ticket};
}

void Fabric::advance_sends() {
  const auto gone = std::remove_if(sends_.begin(), sends_.end(), [&](const Sent& s) {
    const bool taken = s.is_remote ? end_.wire()->done(s.number)
                                   : desk_->letters[s.number % Desk::kLetters].state.load() == Letter::kTaken;
    if (taken) end_.finish_record(s.record);
    return taken;
  });
  sends_.erase(gone, sends_.end());
  // A letter's place is free again when all before it are taken.
  std::uint64_t settled = desk_->settled.load();
  while (settled < desk_->sent.load() && desk_->letters[settled % Desk::kLetters].state.load() == Letter::kTaken &&
         std::none_of(sends_.begin(), sends_.end(), [&](const Sent& s) { return !s.is_remote && s.number == settled; }))
    ++settled;
  desk_->settled.store(settled);
}

void Fabric::advance_receives() {
  // Messages of one sender and tag arrive in the order in which they were asked for.
  std::vector<std::pair<int, int>> blocked;
  for (auto e = recvs_.begin(); e != recvs_.end();) {
    const std::pair<int, int> key{e->from, e->tag};
    if (std::find(blocked.begin(), blocked.end(), key) == blocked.end() && receive(*e)) {
      end_.finish_record(e->record);
      e = recvs_.erase(e);
      continue;
    }
    if (!e->request) blocked.push_back(key);
    ++e;
  }
}

// True once the message is there.
bool Fabric::receive(Expected& e) {
  Peer& p = peer(e.from);
  const auto require_same = [&](std::int64_t count, DType dtype) {
    if (count == e.data.count && dtype == e.data.dtype) return;
    end_.accuse(count != e.data.count ? Cause::kCount : Cause::kDtype, p.world_rank,
                str("a message of tag ", e.tag, ": rank ", p.world_rank, " sends ", count, " x ", name_of(dtype),
                    ", rank ", end_.rank(), " expects ", e.data.count, " x ", name_of(e.data.dtype)));
  };
  if (p.is_remote) {
    if (!e.request) {
      const auto note = std::find_if(p.letters.begin(), p.letters.end(), [&](const Note& n) { return n.tag == e.tag; });
      if (note == p.letters.end()) return false;
      require_same(note->print.count, note->print.dtype);
      e.request = end_.wire()->receive(p.world_rank, e.data.data, bytes_of(e.data), note->channel);
      p.letters.erase(note);
    }
    if (!end_.wire()->done(*e.request)) return false;
  } else {
    if (!is_here(e.from)) return false;
    Letter* letter = nullptr;
    const std::uint64_t sent = p.desk->sent.load();
    for (std::uint64_t i = p.desk->settled.load(); i < sent && !letter; ++i) {
      Letter& l = p.desk->letters[i % Desk::kLetters];
      // For this rank, and still the letter of this number when that was read: only this rank takes it then.
      if (l.state.load() == Letter::kPosted && l.number.load() == i && l.to.load() == rank_ && l.tag.load() == e.tag &&
          l.number.load() == i)
        letter = &l;
    }
    if (!letter) return false;
    require_same(letter->data.count, letter->data.dtype);
    {
      const Copying copying(end_);
      copy(e.data.data, theirs(e.from, letter->data.data), bytes_of(e.data));
    }
    letter->state.store(Letter::kTaken);
    if (e.from != rank_) ring(*end_.status_of(p.world_rank));
  }
  count(rank_, e.data.count, e.data.dtype);
  return true;
}

}  // namespace sextant
