#pragma once
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

/// Concatenates anything that streams.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// The candidate with the least edit distance to `word` if it is close enough to be meant; else "".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// 1234567 -> "1,234,567".
std::string with_commas(long long number);

/// Where the text stops being UTF-8 (RFC 3629); npos if nowhere.
std::size_t first_invalid_utf8(std::string_view text);
/// Length of the UTF-8 sequence that starts the text; 0 if it is none, -1 if it may become one with more bytes.
int utf8_length(std::string_view text);

/// Text that may come from anywhere, safe to print on a terminal: control characters, invisible ones that change how
/// others are shown (bidirectional controls, zero width), and bytes that are no UTF-8 become \xNN, long text is cut.
std::string printable(std::string_view text, std::size_t most = 200);
/// The same for a path, whose end tells files apart: a long one is cut at its start.
std::string printable_path(std::string_view path, std::size_t most = 200);

}  // namespace sextant
