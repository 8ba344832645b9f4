#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sextant/base/errors.h"
#include "sextant/base/value.h"

namespace sextant {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxString = std::size_t{1} << 20;
constexpr std::int64_t kMaxValues =
    4'000'000;  // bounds the memory that a hostile file can take to a few times its size

// The library's events carry no position, so its input iterator counts lines as it is read. The lexer stands on the
// last byte of what it reports, but one past a number.
struct Position {
  int line = 1, column = 0;  // of the byte read last
  int line_before = 1, column_before = 0;
  void read(char c) {
    line_before = line, column_before = column;
    ++column;
    if (c == '\n') ++line, column = 0;
  }
};

struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  Position* position;
  const char& operator*() const { return *at; }
  CountingIterator& operator++() { return position->read(*at++), *this; }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& o) const { return at == o.at; }
  bool operator!=(const CountingIterator& o) const { return at != o.at; }
};

class Handler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Handler(Position& position, const std::string& file, ExitCode code)
      : position_(position), file_(printable(file)), code_(code) {}

  bool null() { return add(Value()); }
  bool boolean(bool v) { return add(Value(v)); }
  bool number_integer(number_integer_t v) { return step_back(), add(Value(std::int64_t{v})); }
  bool number_unsigned(number_unsigned_t v) {
    step_back();
    if (v > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      fail(str("integer ", v, " is beyond 63 bits"));
    return add(Value(static_cast<std::int64_t>(v)));
  }
  bool number_float(number_float_t v, const string_t& text) {
    step_back();
    // The library turns integers that overflow into doubles; an integer must stay one.
    if (text.find_first_of(".eE") == std::string::npos)
      fail(str("integer ", printable(text, 40), " is beyond 63 bits"));
    if (!std::isfinite(v)) fail(str("number ", printable(text, 40), " is beyond a double"));
    return add(Value(v));
  }
  bool string(string_t& v) {
    if (v.size() > kMaxString) fail(str("string of ", v.size(), " bytes; at most ", kMaxString));
    return add(Value(std::move(v)));
  }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Value(Value::Object{})); }
  bool start_array(std::size_t) { return open(Value(Value::Array{})); }
  bool key(string_t& name) {
    if (name.size() > kMaxString) fail("a key of over 1 MiB");
    auto& keys = open_.back().keys;
    if (!keys.insert(name).second) fail(str("key \"", printable(name), "\" stands twice in one object"));
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    std::string text = error.what();  // "[json.exception...] parse error at line 1, column 2: syntax error while ..."
    if (const auto bracket = text.find("] "); bracket != std::string::npos) text = text.substr(bracket + 2);
    if (const auto colon = text.find(": "); colon != std::string::npos && text.rfind("parse error", 0) == 0)
      text = text.substr(colon + 2);
    fail(str("no valid JSON: ", printable(text)));
  }
  Value root;

 private:
  struct Open {
    Value value;
    std::string key;
    std::set<std::string> keys;
  };
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidInput(str(file_, ":", position_.line, ":", position_.column, ": ", what), code_);
  }
  void step_back() { line_ = position_.line_before, column_ = position_.column_before; }
  bool add(Value value) {
    if (++values_ > kMaxValues) fail(str("more than ", kMaxValues, " values"));
    if (!line_) line_ = position_.line, column_ = position_.column;
    if (!value.line) value.line = line_, value.column = column_;
    line_ = column_ = 0;
    if (open_.empty()) return root = std::move(value), true;
    Open& top = open_.back();
    if (auto* array = std::get_if<Value::Array>(&top.value.data)) {
      array->push_back(std::move(value));
    } else {
      std::get<Value::Object>(top.value.data).push_back({std::move(top.key), std::move(value)});
    }
    return true;
  }
  bool open(Value value) {
    if (open_.size() >= kMaxDepth) fail(str("nested deeper than ", kMaxDepth));
    open_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }
  Position& position_;
  std::string file_;
  ExitCode code_;
  std::vector<Open> open_;
  std::int64_t values_ = 0;
  int line_ = 0, column_ = 0;  // of the value being added, if it is not the reader's place
};

void write(const Value& value, int indent, bool indented, std::string& out) {
  const auto newline = [&](int depth) {
    if (indented) out += '\n', out.append(static_cast<std::size_t>(depth) * 2, ' ');
  };
  if (const auto* array = std::get_if<Value::Array>(&value.data)) {
    // Arrays of plain values stay on one line.
    bool nested = false;
    for (const Value& v : *array) nested |= v.data.index() >= 5;
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i) out += nested || !indented ? "," : ", ";
      if (nested) newline(indent + 1);
      write((*array)[i], indent + 1, indented, out);
    }
    if (nested) newline(indent);
    out += ']';
  } else if (const auto* object = std::get_if<Value::Object>(&value.data)) {
    out += '{';
    for (std::size_t i = 0; i < object->size(); ++i) {
      if (i) out += ',';
      newline(indent + 1);
      out += nlohmann::json((*object)[i].key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      out += indented ? ": " : ":";
      write((*object)[i].value, indent + 1, indented, out);
    }
    if (!object->empty()) newline(indent);
    out += '}';
  } else {
    nlohmann::json leaf;
    if (const auto* b = std::get_if<bool>(&value.data)) leaf = *b;
    if (const auto* i = std::get_if<std::int64_t>(&value.data)) leaf = *i;
    if (const auto* d = std::get_if<double>(&value.data)) leaf = *d;  // NaN and infinity become null
    if (const auto* s = std::get_if<std::string>(&value.data)) leaf = *s;
    out += leaf.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

}  // namespace

Value parse_json(std::string_view text, const std::string& file, ExitCode code) {
  if (text.substr(0, 3) == "\xef\xbb\xbf")
    throw InvalidInput(str(printable(file), ":1:1: starts with a byte-order mark; save it as plain UTF-8"), code);
  // The library takes a NUL for the end of the input, whatever stands behind it.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)
    throw InvalidInput(str(printable(file), ": no valid JSON: byte ", nul, " is NUL"), code);
  Position position;
  Handler handler(position, file, code);
  const bool ok = nlohmann::json::sax_parse(CountingIterator{text.data(), &position},
                                            CountingIterator{text.data() + text.size(), &position}, &handler);
  check(ok, "the JSON handler throws on every error");
  return std::move(handler.root);
}

std::string to_json(const Value& value, bool indented) {
  std::string out;
  write(value, 0, indented, out);
  return out;
}

}  // namespace sextant
