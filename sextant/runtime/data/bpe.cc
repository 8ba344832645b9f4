#include "sextant/runtime/data/bpe.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

// Bytes that print stand for themselves, the others for U+0100 and on, in order.
std::array<std::uint32_t, 256> code_points() {
  std::array<std::uint32_t, 256> out{};
  std::uint32_t next = 256;
  for (std::uint32_t b = 0; b < 256; ++b) {
    const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    out[b] = prints ? b : next++;
  }
  return out;
}

std::uint64_t mix(std::uint64_t key) {
  key *= 0x9e3779b97f4a7c15ULL;
  return key ^ (key >> 29);
}

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

const std::string& character_of_byte(unsigned char byte) {
  static const std::array<std::string, 256> kCharacters = [] {
    std::array<std::string, 256> out;
    const auto points = code_points();
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t c = points[b];
      if (c < 0x80)
        out[b] = static_cast<char>(c);
      else
        out[b] = {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
    }
    return out;
  }();
  return kCharacters[byte];
}

int byte_of_character(std::uint32_t code_point) {
  static const std::map<std::uint32_t, int> kBytes = [] {
    std::map<std::uint32_t, int> out;
    const auto points = code_points();
    for (int b = 0; b < 256; ++b) out[points[static_cast<std::size_t>(b)]] = b;
    return out;
  }();
  const auto found = kBytes.find(code_point);
  return found == kBytes.end() ? -1 : found->second;
}

Bpe::Bpe(std::vector<std::string> tokens, const std::vector<Merge>& merges, bool whole, const std::string& file)
    : tokens_(std::move(tokens)), whole_(whole) {
  const auto fail = [&](const std::string& why) {
    throw InvalidInput(str(printable_path(file), ": model: ", why), ExitCode::kCorrupt);
  };
  for (std::size_t id = 0; id < tokens_.size(); ++id)
    if (!tokens_[id].empty()) ids_.emplace(tokens_[id], static_cast<std::int32_t>(id));
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    of_byte_[b] = find({&byte, 1});
    if (of_byte_[b] < 0)
      fail(str("the vocabulary lacks byte ", b, " (", character_of_byte(static_cast<unsigned char>(b)),
               "); a byte-level one has all 256"));
  }
  std::uint64_t capacity = 1024;
  while (capacity < 2 * merges.size()) capacity *= 2;
  slots_.resize(capacity);
  mask_ = capacity - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    const std::string both = tokens_[static_cast<std::size_t>(left)] + tokens_[static_cast<std::size_t>(right)];
    const std::int32_t id = find(both);
    if (id < 0) fail(str("merge ", rank, " makes a token that the vocabulary lacks: ", printable(both, 60)));
    const std::uint64_t key = key_of(left, right);
    std::uint64_t at = mix(key) & mask_;
    while (slots_[at].key != ~std::uint64_t{0} && slots_[at].key != key) at = (at + 1) & mask_;
    slots_[at] = {key, {static_cast<std::int32_t>(rank), id}};  // of equal merges the last one counts
  }
}

std::int32_t Bpe::find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  return found == ids_.end() ? -1 : found->second;
}

const Bpe::Result* Bpe::merged(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = key_of(left, right);
  for (std::uint64_t at = mix(key) & mask_;; at = (at + 1) & mask_) {
    if (slots_[at].key == key) return &slots_[at].result;
    if (slots_[at].key == ~std::uint64_t{0}) return nullptr;
  }
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& out) const {
  if (whole_ || piece.size() == 1)
    if (const std::int32_t id = find(piece); id >= 0) {
      out.push_back(id);
      return;
    }
  // Words are short: looking at all pairs again after each merge is quickest. What is long is not.
  constexpr std::size_t kShort = 48;
  thread_local std::vector<std::int32_t> ids;
  ids.clear();
  for (const char c : piece) ids.push_back(of_byte_[static_cast<unsigned char>(c)]);
  if (piece.size() > kShort) {
    encode_long(ids);
  } else {
    thread_local std::vector<const Result*> pairs;
    pairs.clear();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) pairs.push_back(merged(ids[i], ids[i + 1]));
    while (true) {
      std::size_t best = pairs.size();
      for (std::size_t i = 0; i < pairs.size(); ++i)
        if (pairs[i] && (best == pairs.size() || pairs[i]->rank < pairs[best]->rank)) best = i;
      if (best == pairs.size()) break;
      const auto at = static_cast<std::ptrdiff_t>(best);
      ids[best] = pairs[best]->id;
      ids.erase(ids.begin() + at + 1);
      pairs.erase(pairs.begin() + at);
      if (best > 0) pairs[best - 1] = merged(ids[best - 1], ids[best]);
      if (best < pairs.size()) pairs[best] = merged(ids[best], ids[best + 1]);
    }
  }
  out.insert(out.end(), ids.begin(), ids.end());
}

// The same with a queue of pairs over a linked list: n log n.
void Bpe::encode_long(std::vector<std::int32_t>& ids) const {
  struct Candidate {
    std::int32_t rank;
    std::uint32_t at;
    std::int32_t left, right;  // what stood there: a candidate that does not fit any more is passed over
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  const auto n = static_cast<std::uint32_t>(ids.size());
  std::vector<std::uint32_t> next(n), before(n);
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::uint32_t i) {
    if (next[i] >= n) return;
    if (const Result* r = merged(ids[i], ids[next[i]])) queue.push({r->rank, i, ids[i], ids[next[i]]});
  };
  for (std::uint32_t i = 0; i < n; ++i) next[i] = i + 1, before[i] = i - 1;
  for (std::uint32_t i = 0; i < n; ++i) offer(i);
  constexpr std::int32_t kGone = -1;
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    const std::uint32_t i = c.at;
    if (ids[i] != c.left || next[i] >= n || ids[next[i]] != c.right) continue;
    const std::uint32_t gone = next[i];
    ids[i] = merged(c.left, c.right)->id;
    ids[gone] = kGone;
    next[i] = next[gone];
    if (next[i] < n) before[next[i]] = i;
    offer(i);
    if (i > 0) offer(before[i]);
  }
  ids.erase(std::remove(ids.begin(), ids.end(), kGone), ids.end());
}

}  // namespace sextant
