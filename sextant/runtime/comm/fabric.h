#pragma once
// Collectives over shared memory where ranks share it, and over messages where they do not. One algorithm for both,
// direct: every rank reads (or is sent) exactly its part from every other one. So sums are added in rank order, every
// layout of ranks over nodes gives the same bits, and the bytes received are the least possible (docs/collectives.md).
#include <deque>
#include <optional>

#include "sextant/runtime/comm/endpoint.h"

namespace sextant {

class Fabric final : public Communicator, private Active {
 public:
  /// The group `members` (world ranks, ascending) of which `end` is one. `id` is the same on all of them, and no other
  /// group's.
  Fabric(Endpoint& end, std::uint64_t id, std::vector<int> members);
  ~Fabric() override;
  static std::unique_ptr<Communicator> world(Endpoint& end);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Pending all_reduce(Payload data, Site site) override;
  Pending all_reduce_max(Payload data, Site site) override;
  Pending reduce_scatter(Payload in, Payload out, Site site) override;
  Pending all_gather(Payload in, Payload out, Site site) override;
  Pending all_to_all(Payload in, std::vector<std::int64_t> in_counts, Payload out, std::vector<std::int64_t> out_counts,
                     Site site) override;
  Pending broadcast(Payload data, int root, Site site) override;
  Pending send(Payload data, int to, int tag, Site site) override;
  Pending recv(Payload data, int from, int tag, Site site) override;
  Pending barrier(Site site) override;
  std::unique_ptr<Communicator> group(const std::vector<int>& ranks) override;
  Region memory(Bytes capacity) override { return end_.memory(capacity); }
  int ranks_here() const override;
  Bytes received() const override { return {desk_->received.load()}; }
  void progress() override { end_.progress(); }
  void enter(Phase phase) override { end_.enter(phase); }
  void set_options(const CommOptions& options) override { end_.set_options(options); }

 protected:
  bool finish(std::uint64_t ticket, bool block) override;
  void abandon() noexcept override { end_.abandon(); }

 private:
  struct Peer {
    int world_rank = 0;
    Desk* desk = nullptr;      // null until the peer has made the group; of a remote one: our copy
    std::ptrdiff_t shift = 0;  // of addresses
    bool is_remote = false;
    std::unique_ptr<Desk> mirror;           // what a remote peer has told
    std::deque<Note> notes;                 // told, but too early for the mirror
    std::deque<Note> letters;               // messages of a remote peer that nobody has asked for yet
    std::array<Note, Desk::kWindow> posts;  // the notes behind the mirror's posts
  };
  // A buffer as others reach it: itself, or a copy where they reach it.
  struct Reached {
    Payload user, reached;
    std::optional<Region> copy;
  };
  struct Collective {
    Post post;
    Reached in, out;
    std::optional<Region> counts;
    std::vector<std::int64_t> in_counts, out_counts;
    std::vector<int> channels;  // to each remote peer
    enum class Stage : std::uint8_t { kPosted, kExchanging, kSpreading, kMoved } stage = Stage::kPosted;
    std::vector<std::pair<Wire::Request, int>> requests;  // and whose
    std::vector<std::byte> parts;                         // slices that remote peers sent
    std::uint64_t record = 0;
  };
  struct Sent {
    std::uint64_t ticket;
    std::uint64_t number = 0;  // of the letter; remote: of the wire request
    int to = 0, tag = 0;
    Reached data;
    bool is_remote = false;
    std::uint64_t record = 0;
    std::string site;
  };
  struct Expected {
    std::uint64_t ticket;
    Payload data;
    int from, tag;
    std::optional<Wire::Request> request;
    std::uint64_t record = 0;
    std::string site;
  };

  void advance() override;
  void take_note(int from, const Note& note) override;
  Pending start(Fingerprint print, Payload in, Payload out, std::vector<std::int64_t> in_counts = {},
                std::vector<std::int64_t> out_counts = {});
  Reached reach(Payload data);
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  bool is_here(int rank);  // whether the peer has made the group
  void load_notes(Peer& peer);
  Fingerprint print(What what, const Payload& data, std::int64_t count, int root, const Site& site) const;
  Collective& operation(std::uint64_t number) { return operations_[static_cast<std::size_t>(number - done_)]; }
  const Post& post(std::uint64_t number, int rank) { return peer(rank).desk->posts[number % Desk::kWindow]; }
  bool all_posted(std::uint64_t number);
  bool all_moved(std::uint64_t number);
  int first_missing(std::uint64_t number);
  void compare(std::uint64_t number);
  void compare_counts(std::uint64_t number);
  bool move(std::uint64_t number);
  void exchange(std::uint64_t number);
  void spread(std::uint64_t number);
  bool requests_done(Collective& c);
  template <class T>
  void reduce_as(std::uint64_t number);
  const std::byte* theirs(int rank, const void* address) {
    return static_cast<const std::byte*>(address) + peer(rank).shift;
  }
  void count(int rank, std::int64_t elements, DType dtype);
  std::string words(std::uint64_t number);
  std::size_t remote_index(int rank) const;
  std::string members_text() const;
  void advance_sends();
  void advance_receives();
  bool receive(Expected& expected);
  void ring_all();

  static constexpr std::uint64_t kMail = std::uint64_t{1} << 63;

  Endpoint& end_;
  std::uint64_t id_;
  std::vector<int> members_;
  std::vector<Peer> peers_;
  int rank_ = -1;
  bool has_remote_ = false, has_neighbours_ = false;
  Desk* desk_;
  std::deque<Collective> operations_;  // from done_ on
  std::uint64_t done_ = 0, moved_ = 0, next_ = 0, mail_ = 0;
  std::map<std::vector<int>, std::uint64_t> groups_;  // made from this one, by members
  std::vector<Sent> sends_;
  std::vector<Expected> recvs_;
};

}  // namespace sextant
