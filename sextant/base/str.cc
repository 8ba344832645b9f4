#include "sextant/base/str.h"

#include <algorithm>
#include <cstdio>

namespace sextant {

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) out += separator;
    out += part;
  }
  return out;
}

namespace {

// Insertions, deletions, replacements, and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  // At most every third letter wrong, or the word is a part of the candidate: beyond that a hint misleads.
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  constexpr std::size_t kLongest = 100;
  if (word.size() > kLongest) return best;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    std::size_t distance = edit_distance(word, candidate);
    if (word.size() >= 3 && candidate.find(word) != std::string::npos) distance = std::min(distance, std::size_t{1});
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string with_commas(long long number) {
  std::string digits = std::to_string(number < 0 ? -number : number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return number < 0 ? "-" + digits : digits;
}

int utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const int length = lead >= 0xc2 && lead <= 0xdf   ? 2
                     : lead >= 0xe0 && lead <= 0xef ? 3
                     : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                    : 0;
  for (std::size_t i = 1; i < static_cast<std::size_t>(length); ++i) {
    if (i >= text.size()) return -1;
    // The second byte excludes overlong forms, surrogates and what is beyond U+10FFFF.
    const unsigned char low = i > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < low || byte(i) > high) return 0;
  }
  return length;
}

std::size_t first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const int length = utf8_length(text.substr(at));
    if (length <= 0) return at;
    at += static_cast<std::size_t>(length);
  }
  return std::string_view::npos;
}

namespace {

// U+0080-009F, U+061C, U+200B-200F, U+2028-202E, U+2060-2069, U+FEFF, U+FFF9-FFFB, tags from U+E0000 on.
bool is_invisible(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x2069) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe0fff) || c == 0xad || c == 0x180e;
}

std::uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(sequence[i])); };
  constexpr std::uint32_t kLeadBits[] = {0x7f, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t c = byte(0) & kLeadBits[sequence.size()];
  for (std::size_t i = 1; i < sequence.size(); ++i) c = c << 6 | (byte(i) & 0x3f);
  return c;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t at = 0; at < text.size() && at < most;) {
    const int length = utf8_length(text.substr(at));
    const std::size_t taken = length > 0 ? static_cast<std::size_t>(length) : 1;
    const std::string_view sequence = text.substr(at, taken);
    if (length > 0 && !is_invisible(code_point(sequence))) {
      out += sequence;
    } else {
      for (const char c : sequence) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
        out += escaped;
      }
    }
    at += taken;
  }
  if (text.size() > most) out += "...";
  return out;
}

std::string printable_path(std::string_view path, std::size_t most) {
  if (path.size() <= most) return printable(path, most);
  std::string_view end = path.substr(path.size() - most);
  while (!end.empty() && (static_cast<unsigned char>(end[0]) & 0xc0) == 0x80) end.remove_prefix(1);
  return "..." + printable(end, most);
}

}  // namespace sextant
