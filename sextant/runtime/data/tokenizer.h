#pragma once
// Text to tokens and back: the built-in byte-level tokenizer, or a Hugging Face tokenizer.json of byte-level BPE.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sextant/runtime/data/bpe.h"
#include "sextant/runtime/data/splitter.h"

namespace sextant {

/// What makes words of text before they are encoded.
struct PreTokenizer {
  enum class Kind : std::uint8_t { kSplit, kByteLevel } kind = Kind::kSplit;
  std::optional<Splitter> splitter;
  bool add_prefix_space = false;  ///< kByteLevel: every piece that does not start with a space gets one
};

/// A token that is matched in the text itself.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool left_strip = false, right_strip = false, normalized = false, special = false;
};

class Tokenizer {
 public:
  /// Bytes are ids 0-255, 256 ends a document.
  static Tokenizer bytes();
  /// Reads a tokenizer.json: model BPE without byte fallback, pre-tokenizers ByteLevel, Split and Digits, normalizers
  /// NFC, NFD, NFKC and NFKD, and sequences of them. Throws InvalidInput (storage, corrupt; invalid for a part that is
  /// not offered, by its name).
  static Tokenizer open(const std::string& path);
  static Tokenizer parse(std::string_view json, const std::string& file);

  /// Appends the ids of `text`, special tokens in it included. Nothing is put before or behind. `text` is UTF-8, but
  /// for the built-in tokenizer, which takes any bytes. Safe to call from several threads.
  void encode(std::string_view text, std::vector<std::int32_t>& out) const;
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes of a token; "" for an id that is none. Several tokens may make one character.
  const std::string& decode(std::int32_t id) const;
  /// The words that are encoded one by one, of text without added tokens; for tests.
  std::vector<std::string> pieces(std::string_view text) const;

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(decoded_.size()); }
  bool is_bytes() const { return !bpe_; }
  /// What ends a document: "<|endoftext|>" or its like; -1 if the tokenizer has none.
  std::int32_t end_of_text() const { return end_of_text_; }
  std::uint64_t digest() const { return digest_; }
  const std::string& name() const { return name_; }

 private:
  void encode_plain(std::string_view text, std::vector<std::int32_t>& out) const;
  template <class Then>
  void split_at_added(std::string_view text, const std::vector<std::size_t>& which, std::vector<std::int32_t>& out,
                      const Then& then) const;
  std::string normalize(std::string_view text) const;
  void make_pieces(std::string_view text, std::deque<std::string>& owned, std::vector<std::string_view>& out) const;

  std::string name_;
  std::uint64_t digest_ = 0;
  std::shared_ptr<const Bpe> bpe_;
  std::vector<int> normal_forms_;  // utf8proc options, one after the other
  std::vector<PreTokenizer> pre_tokenizers_;
  std::vector<AddedToken> added_;
  std::vector<std::size_t> raw_, normalized_;  // added tokens matched before and behind the normalizer
  std::vector<std::string> decoded_;
  std::int32_t end_of_text_ = -1;
};

}  // namespace sextant
