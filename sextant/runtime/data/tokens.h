#pragma once
// Text as tokens: the byte-level tokenizer and memory-mapped token files.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sextant/base/atomic_file.h"
#include "sextant/base/mapped_file.h"

namespace sextant {

/// The built-in tokenizer: ids 0-255 are bytes, 256 ends a document.
inline constexpr std::int32_t kEndOfText = 256;
inline constexpr std::int64_t kByteVocabulary = 257;

/// Tokens of a training set, in order. Each document ends with end_of_text().
class Tokens {
 public:
  /// A token file written by `sextant data`, or a plain text file, read as bytes. Throws InvalidInput if it is missing,
  /// empty, damaged, or binary where text is expected.
  static Tokens open(const std::string& path);

  std::int64_t size() const { return count_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  std::int32_t operator[](std::int64_t i) const {
    if (width_ == 0) return i + 1 == count_ ? kEndOfText : static_cast<std::int32_t>(text_[i]);
    return width_ == 2 ? reinterpret_cast<const std::uint16_t*>(text_)[i]
                       : reinterpret_cast<const std::int32_t*>(text_)[i];
  }
  const std::string& path() const { return path_; }
  std::int32_t end_of_text() const { return end_of_text_; }
  std::uint64_t tokenizer() const { return tokenizer_; }               ///< digest of the one that made them; 0: bytes
  std::span<const std::byte> bytes() const { return file_->bytes(); }  ///< the whole file

 private:
  std::shared_ptr<MappedFile> file_;
  std::string path_;
  const unsigned char* text_ = nullptr;
  int width_ = 0;  // bytes of a token; 0: plain text
  std::int64_t count_ = 0, vocabulary_ = kByteVocabulary;
  std::int32_t end_of_text_ = kEndOfText;
  std::uint64_t tokenizer_ = 0;
};

/// Writes a token file. Layout, little-endian: "SXTOKENS", u32 version 2, u32 bytes per token (2 or 4), u64 vocabulary,
/// u64 count, u64 digest of the tokenizer, i64 token that ends a document, then the tokens.
class TokenWriter {
 public:
  /// Throws InvalidInput (storage).
  TokenWriter(const std::string& path, std::int64_t vocabulary, std::int32_t end_of_text = kEndOfText,
              std::uint64_t tokenizer = 0);
  /// Bytes of a token in a file of this vocabulary.
  static int width_of(std::int64_t vocabulary) { return vocabulary <= 65536 ? 2 : 4; }
  int width() const { return width_of(vocabulary_); }
  /// A document's tokens, without its end.
  void document(std::span<const std::int32_t> ids);
  /// Tokens as the file has them.
  void add_raw(std::span<const std::byte> tokens);
  /// Completes the header and gives the file its name. Returns the number of tokens.
  std::int64_t finish();

 private:
  AtomicFile file_;
  std::int64_t vocabulary_, count_ = 0;
  std::int32_t end_of_text_;
  std::uint64_t tokenizer_;
};

/// Throws InvalidInput if the bytes are no text: a NUL byte, or over 1 in 10 of the first MiB control bytes.
void require_text(std::span<const std::byte> bytes, const std::string& path);

}  // namespace sextant
