#include "sextant/runtime/data/splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

// Unicode's White_Space. PCRE2's \s has U+180E besides, which is none.
constexpr std::string_view kSpaces =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

[[noreturn]] void refuse(const std::string& file, const std::string& pattern, const std::string& why) {
  throw InvalidInput(str(printable_path(file), ": pre_tokenizer: pattern ", printable(pattern, 120), ": ", why),
                     ExitCode::kCorrupt);
}

}  // namespace

std::string translated_pattern(const std::string& pattern, const std::string& file) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      if (next == 's') {
        out += in_class ? std::string(kSpaces) : str("[", kSpaces, "]");
      } else if (next == 'S') {
        if (in_class) refuse(file, pattern, "\\S within brackets is not offered");
        out += str("[^", kSpaces, "]");
      } else if (std::string_view("hHwWdDRXuKGNyYOAZzbB").find(next) != std::string_view::npos) {
        refuse(file, pattern, str("\\", next, " means something else to Oniguruma, or is not offered"));
      } else {
        out += c;
        if (next) out += next;
        // \p{L} and \x{20} with their braces.
        if ((next == 'p' || next == 'P' || next == 'x') && i + 2 < pattern.size() && pattern[i + 2] == '{')
          for (i += 2; i < pattern.size(); ++i) {
            out += pattern[i];
            if (pattern[i] == '}') break;
          }
        if (i < pattern.size() && pattern[i] == '}') continue;
      }
      ++i;
      continue;
    }
    if (in_class) {
      if (c == '[') refuse(file, pattern, "brackets within brackets are not offered");
      if (c == '&' && next == '&') refuse(file, pattern, "&& within brackets is not offered");
      if (c == ']') in_class = false;
      out += c;
      continue;
    }
    if (c == '[') {
      in_class = true;
      out += c;
      // A bracket that closes at once stands for itself.
      if (next == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += "\\]", ++i;
      continue;
    }
    if (c == '^' || c == '$') refuse(file, pattern, "^ and $ are not offered");
    if (c == '{' && next == ',') refuse(file, pattern, "{,n} is not offered; write {0,n}");
    if (c == '}' && next == '+') refuse(file, pattern, "{n,m}+ means something else to Oniguruma");
    out += c;
  }
  return out;
}

struct Splitter::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

namespace {

// What a thread needs to match; patterns are shared.
struct Matcher {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  Matcher() {
    constexpr std::uint32_t kMostSteps = 10'000'000;
    pcre2_set_match_limit(context, kMostSteps);
  }
  ~Matcher() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
};

std::string message_of(int error) {
  char text[256] = {};
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR8*>(text), sizeof text);
  return text;
}

}  // namespace

Splitter::Splitter(const std::string& pattern, bool literal, SplitBehavior behavior, bool invert,
                   const std::string& file)
    : behavior_(behavior), invert_(invert), file_(file) {
  if (pattern.empty()) refuse(file, pattern, "is empty");
  const std::string translated = literal ? pattern : translated_pattern(pattern, file);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto code = std::make_shared<Code>();
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR8>(translated.data()), translated.size(),
                    PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C), &error, &at, nullptr);
  if (!code->code) refuse(file, pattern, message_of(error));
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // without it the interpreter does the same
  code_ = std::move(code);
}

void Splitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  thread_local Matcher matcher;
  const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  // Matches and the gaps between them cover the text; invert swaps the two.
  std::size_t done = 0, search = 0;
  const auto slice = [&](std::size_t begin, std::size_t end) { return text.substr(begin, end - begin); };
  bool before_was_match = false;
  std::string_view waiting;  // a match that is merged with what follows
  const auto put = [&](std::size_t begin, std::size_t end, bool is_match) {
    if (begin == end) return;
    is_match = is_match != invert_;
    const std::string_view piece = slice(begin, end);
    const auto join = [&](std::string_view& to) { to = {to.data(), to.size() + piece.size()}; };
    switch (behavior_) {
      case SplitBehavior::kIsolated:
        pieces.push_back(piece);
        break;
      case SplitBehavior::kRemoved:
        if (!is_match) pieces.push_back(piece);
        break;
      case SplitBehavior::kContiguous:
        if (is_match && before_was_match)
          join(pieces.back());
        else
          pieces.push_back(piece);
        break;
      case SplitBehavior::kMergedWithPrevious:
        // Only the first of a run of matches joins what stands before it.
        if (is_match && !before_was_match && begin > 0 && !pieces.empty() &&
            pieces.back().data() + pieces.back().size() == piece.data())
          join(pieces.back());
        else
          pieces.push_back(piece);
        break;
      case SplitBehavior::kMergedWithNext:
        // Only the last of a run of matches joins what follows.
        if (is_match) {
          if (!waiting.empty()) pieces.push_back(waiting);
          waiting = piece;
        } else if (!waiting.empty()) {
          pieces.push_back({waiting.data(), waiting.size() + piece.size()});
          waiting = {};
        } else {
          pieces.push_back(piece);
        }
        break;
    }
    before_was_match = is_match;
  };
  while (search <= text.size() && !text.empty()) {
    const int found =
        pcre2_match(code_->code, subject, text.size(), search, PCRE2_NO_UTF_CHECK, matcher.data, matcher.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      throw InvalidInput(str(printable_path(file_), ": pre_tokenizer: its pattern gives up on a text of ", text.size(),
                             " bytes: ", message_of(found)),
                         ExitCode::kCorrupt);
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(matcher.data);
    const std::size_t begin = ends[0], end = ends[1];
    put(done, begin, false);
    put(begin, end, true);
    done = end;
    search = end;
    if (begin == end) {  // nothing was matched: a cut, and on by a character
      before_was_match = false;
      ++search;
      while (search < text.size() && (static_cast<unsigned char>(text[search]) & 0xc0) == 0x80) ++search;
    }
  }
  put(done, text.size(), false);
  if (!waiting.empty()) pieces.push_back(waiting);
}

}  // namespace sextant
