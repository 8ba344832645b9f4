#include "sextant/runtime/comm/fabric.h"

#include <algorithm>
#include <numeric>

#include "sextant/base/errors.h"
#include "sextant/runtime/comm/payload_memory.h"

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

}  // namespace sextant
