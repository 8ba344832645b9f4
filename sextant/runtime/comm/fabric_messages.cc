// Fabric: messages between two ranks.
#include <algorithm>

#include "sextant/base/errors.h"
#include "sextant/runtime/comm/fabric.h"
#include "sextant/runtime/comm/payload_memory.h"

namespace sextant {

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
