// The reader of run files: a strict TOML subset. Its own parser because every message must carry line and column, and
// because the packaged libraries crash on hostile input.
#include <charconv>
#include <cmath>

#include "sextant/base/errors.h"
#include "sextant/base/value.h"

namespace sextant {
namespace {

constexpr int kMaxDepth = 8;
constexpr std::size_t kMostNames = 256;  // of sections, and of keys in one

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(printable(file)) {}

  Value document() {
    if (text_.size() > (std::size_t{1} << 20)) fail("a run file has at most 1 MiB");
    if (const auto bad = first_invalid_utf8(text_); bad != std::string_view::npos)
      throw InvalidInput(str(file_, ": byte ", bad, " is not UTF-8; a run file is plain UTF-8 text"));
    if (text_.substr(0, 3) == "\xef\xbb\xbf") fail("starts with a byte-order mark; save it as plain UTF-8");
    if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos)
      throw InvalidInput(str(file_, ": is empty; it should have [sections] of key = value lines"));
    Value root(Value::Object{});
    std::string section;
    for (skip_blank(); at_ < text_.size(); skip_blank()) {
      const int line = line_, column = column_;
      if (peek() == '[') {
        next();
        skip_spaces();
        if (peek() == '[') fail("arrays of tables are not used in run files; write [section]");
        section = name("section name");
        skip_spaces();
        if (peek() != ']') fail(str("expected ] after [", section));
        next();
        end_of_line();
        if (std::get<Value::Object>(root.data).size() >= kMostNames) fail(str("more than ", kMostNames, " sections"));
        if (root.find(section)) fail_at(line, column, str("section [", section, "] stands twice"));
        Value& made = root.set(section, Value(Value::Object{}));
        made.line = line, made.column = column;
      } else {
        if (section.empty())
          fail("a key before the first [section]; write the name of its section in brackets above it");
        const std::string key = name("key");
        skip_spaces();
        if (peek() == '.') fail(str("dotted keys are not used in run files; write the section as [", key, "]"));
        if (peek() != '=') fail(str("expected = after ", key));
        next();
        skip_spaces();
        Value* table = nullptr;
        for (Member& member : std::get<Value::Object>(root.data))
          if (member.key == section) table = &member.value;
        if (std::get<Value::Object>(table->data).size() >= kMostNames)
          fail(str("more than ", kMostNames, " keys in [", section, "]"));
        if (table->find(key)) fail_at(line, column, str("[", section, "] ", key, " stands twice"));
        Value parsed = value(0);
        end_of_line();
        table->set(key, std::move(parsed));
      }
    }
    return root;
  }

  Value argument() {
    skip_spaces();
    // On a command line quotes are the shell's: a word that is no number, truth value or array is a string.
    const char c = peek();
    const std::string_view all = text_.substr(at_);
    // Signs inside (a date) or letters make it a word.
    const std::size_t digits = c == '-' || c == '+' ? 1 : 0;
    const bool number = all.size() > digits && all[digits] >= '0' && all[digits] <= '9' &&
                        all.find_first_not_of("0123456789._eE+-") == std::string_view::npos &&
                        !is_word(all.substr(digits));
    if (c == '"' || c == '[' || number || all == "true" || all == "false") {
      Value parsed = value(0);
      skip_spaces();
      if (at_ < text_.size()) fail("unexpected text after the value");
      return parsed;
    }
    return Value(std::string(all));
  }

 private:
  static bool is_word(std::string_view digits) {
    for (std::size_t i = 1; i < digits.size(); ++i)
      if ((digits[i] == '-' || digits[i] == '+') && digits[i - 1] != 'e' && digits[i - 1] != 'E') return true;
    return false;
  }
  [[noreturn]] void fail_at(int line, int column, const std::string& what) const {
    throw InvalidInput(line_of_file_ ? str(file_, ":", line, ":", column, ": ", what) : str(file_, ": ", what));
  }
  [[noreturn]] void fail(const std::string& what) const { fail_at(line_, column_, what); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char next() {
    const char c = text_[at_++];
    if (c == '\n')
      ++line_, column_ = 1;
    else
      ++column_;
    return c;
  }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t') next();
  }
  void skip_comment() {
    if (peek() == '#')
      while (at_ < text_.size() && peek() != '\n') next();
  }
  void skip_blank() {
    while (at_ < text_.size()) {
      skip_spaces();
      skip_comment();
      if (peek() == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') next();
      if (peek() != '\n' || at_ >= text_.size()) return;
      next();
    }
  }
  void end_of_line() {
    skip_spaces();
    skip_comment();
    if (peek() == '\r') next();
    if (at_ < text_.size() && peek() != '\n')
      fail(str("expected the end of the line, found '", printable(text_.substr(at_, 1)), "'"));
  }
  std::string name(const char* what) {
    const std::size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_' || peek() == '-') next();
    if (at_ == begin) fail(str("expected a ", what, ", found '", printable(text_.substr(at_, 1)), "'"));
    return std::string(text_.substr(begin, at_ - begin));
  }
  Value value(int depth) {
    Value parsed;
    const int line = line_, column = column_;
    if (peek() == '"') {
      parsed = Value(quoted());
    } else if (peek() == '[') {
      if (depth >= kMaxDepth) fail(str("arrays nested deeper than ", kMaxDepth));
      next();
      Value::Array items;
      for (;;) {
        skip_blank();
        if (peek() == ']') break;
        items.push_back(value(depth + 1));
        skip_blank();
        if (peek() == ']') break;
        if (peek() != ',') fail("expected , or ] in an array");
        next();
      }
      next();
      parsed = Value(std::move(items));
    } else {
      parsed = word();
    }
    parsed.line = line, parsed.column = column;
    return parsed;
  }
  std::string quoted() {
    std::string out;
    next();
    for (;;) {
      if (at_ >= text_.size() || peek() == '\n') fail("string without its closing \"");
      const char c = next();
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20 && c != '\t') fail("control byte in a string; write it as an escape");
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size()) fail("string without its closing \"");
      const char escape = next();
      switch (escape) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case '"':
          out += '"';
          break;
        case '\\':
          out += '\\';
          break;
        default:
          fail("unknown escape in a string; known: \\n \\t \\\" \\\\");
      }
    }
  }
  Value word() {
    const std::size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) ||
           (peek() && std::string_view("+-._").find(peek()) != std::string_view::npos))
      next();
    const std::string_view raw = text_.substr(begin, at_ - begin);
    if (raw.empty()) fail(str("expected a value, found '", printable(text_.substr(at_, 1)), "'"));
    if (raw == "true") return Value(true);
    if (raw == "false") return Value(false);
    std::string digits;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '_') {
        digits += raw[i];
        continue;
      }
      const bool between = i > 0 && i + 1 < raw.size() && std::isdigit(static_cast<unsigned char>(raw[i - 1])) &&
                           std::isdigit(static_cast<unsigned char>(raw[i + 1]));
      if (!between) fail(str("'", printable(raw, 40), "' is no value: _ stands only between digits"));
    }
    const std::size_t sign = digits.size() > 1 && (digits[0] == '+' || digits[0] == '-') ? 1 : 0;
    const auto is_digit = [&](std::size_t at) {
      return at < digits.size() && std::isdigit(static_cast<unsigned char>(digits[at]));
    };
    if (digits[0] == '+' && !is_digit(1))
      fail(str("'", printable(raw, 40), "' is no value; strings stand in \"quotes\""));
    if (digits[sign] == '0' && is_digit(sign + 1))
      fail(str("'", printable(raw, 40), "' is no value: a number does not start with 0"));
    const char* first = digits.data() + (digits[0] == '+' ? 1 : 0);
    const char* last = digits.data() + digits.size();
    std::int64_t integer = 0;
    if (const auto [end, error] = std::from_chars(first, last, integer); end == last && error == std::errc())
      return Value(integer);
    double real = 0;
    const auto [end, error] = std::from_chars(first, last, real);
    const bool numeric =
        std::isdigit(static_cast<unsigned char>(raw[0])) || raw[0] == '-' || raw[0] == '+' || raw[0] == '.';
    if (numeric && end == last && error == std::errc() && std::isfinite(real)) {
      if (digits.find_first_of(".eE") == std::string::npos)
        fail(str("integer ", printable(raw, 40), " is beyond 63 bits"));
      return Value(real);
    }
    fail(str("'", printable(raw, 40), "' is no value; strings stand in \"quotes\""));
  }

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;

 public:
  bool line_of_file_ = true;
};

}  // namespace

Value parse_run_file(std::string_view text, const std::string& file) { return Parser(text, file).document(); }

Value parse_run_value(std::string_view text, const std::string& where) {
  Parser parser(text, where);
  parser.line_of_file_ = false;
  return parser.argument();
}

}  // namespace sextant
