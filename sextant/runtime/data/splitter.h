#pragma once
// Regular expressions of tokenizers: written for Oniguruma, run by PCRE2.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

enum class SplitBehavior : std::uint8_t { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

/// Cuts text at the matches of a pattern, in Hugging Face's ways.
class Splitter {
 public:
  /// `pattern` is a regular expression, or plain text if `literal`. Throws InvalidInput (corrupt) if it is none, or
  /// uses what the two engines read differently; `file` stands in messages.
  Splitter(const std::string& pattern, bool literal, SplitBehavior behavior, bool invert, const std::string& file);

  /// Appends the pieces of valid UTF-8 `text`. Throws InvalidInput (corrupt) if the pattern takes too long on it.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
  SplitBehavior behavior_;
  bool invert_;
  std::string file_;
};

/// An Oniguruma pattern in PCRE2's words: White_Space is Unicode's. Throws InvalidInput as above.
std::string translated_pattern(const std::string& pattern, const std::string& file);

}  // namespace sextant
