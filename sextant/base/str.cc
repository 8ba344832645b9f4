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

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  // At most every third letter wrong, or the word is a part of the candidate: beyond that a hint misleads.
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  if (word.size() > 100) return best;
  for (const std::string& candidate : candidates) {
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

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      out += escaped;
    }
  }
  if (text.size() > most) out += "...";
  return out;
}

}  // namespace sextant
