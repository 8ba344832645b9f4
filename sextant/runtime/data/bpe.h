#pragma once
// Byte-pair encoding over bytes (Sennrich et al. 2016; Radford et al. 2019).
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sextant {

/// Tokens as byte strings, and the merges between them in order of rank.
class Bpe {
 public:
  struct Merge {
    std::int32_t left, right;
  };
  /// `tokens[id]` are the bytes of a token; "" is an id that no text yields. All 256 bytes must be tokens, and every
  /// merge must yield one. `whole`: a piece that is a token is not merged up to it (ignore_merges). Throws
  /// InvalidInput; `file` stands in messages.
  Bpe(std::vector<std::string> tokens, const std::vector<Merge>& merges, bool whole, const std::string& file);

  /// Appends the ids of a piece: the pair of least rank is merged first, leftmost of equals.
  void encode(std::string_view piece, std::vector<std::int32_t>& out) const;
  const std::vector<std::string>& tokens() const { return tokens_; }
  /// The id of these bytes, or -1.
  std::int32_t find(std::string_view bytes) const;

 private:
  struct Result {
    std::int32_t rank, id;
  };
  const Result* merged(std::int32_t left, std::int32_t right) const;
  void encode_long(std::vector<std::int32_t>& ids) const;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // views of tokens_
  std::int32_t of_byte_[256];
  bool whole_;
  // Open addressing by (left, right): a lookup a byte is the hot path.
  struct Slot {
    std::uint64_t key = ~std::uint64_t{0};
    Result result{};
  };
  std::vector<Slot> slots_;
  std::uint64_t mask_ = 0;
};

/// A byte as the character that stands for it in byte-level vocabularies, as UTF-8; and back, -1 for none.
const std::string& character_of_byte(unsigned char byte);
int byte_of_character(std::uint32_t code_point);

}  // namespace sextant
