#pragma once
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

/// Text that may come from anywhere, safe to print on a terminal: control bytes become \xNN, long text is cut.
std::string printable(std::string_view text, std::size_t most = 200);

}  // namespace sextant
