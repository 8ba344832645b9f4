#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sextant/base/errors.h"
#include "sextant/base/json_events.h"
#include "sextant/base/value.h"

namespace sextant {
namespace {

constexpr int kMaxDepth = 64;

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

// Between the library's events and ours: limits, numbers, places.
class Handler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Handler(Position& position, const std::string& file, ExitCode code, std::size_t text_size, JsonEvents& events)
      : position_(position),
        file_(printable_path(file)),
        code_(code),
        // Bounds the memory that a hostile file can take to a few times its size.
        most_values_(100'000 + static_cast<std::int64_t>(text_size / 8)),
        events_(events) {
    events.file = file_;
  }

  bool null() { return leaf(Value()); }
  bool boolean(bool v) { return leaf(Value(v)); }
  bool number_integer(number_integer_t v) { return step_back(), leaf(Value(std::int64_t{v})); }
  bool number_unsigned(number_unsigned_t v) {
    step_back();
    if (v > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      fail(str("integer ", v, " is beyond 63 bits"));
    return leaf(Value(static_cast<std::int64_t>(v)));
  }
  bool number_float(number_float_t v, const string_t& text) {
    step_back();
    // The library turns integers that overflow into doubles; an integer must stay one.
    if (text.find_first_of(".eE") == std::string::npos)
      fail(str("integer ", printable(text, 40), " is beyond 63 bits"));
    if (!std::isfinite(v)) fail(str("number ", printable(text, 40), " is beyond a double"));
    return leaf(Value(v));
  }
  bool string(string_t& v) { return leaf(Value(std::move(v))); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(), stand(), events_.begin_object(), true; }
  bool start_array(std::size_t) { return open(), stand(), events_.begin_array(), true; }
  bool key(string_t& name) { return stand(), events_.key(std::move(name)), true; }
  bool end_object() { return --depth_, stand(), events_.end_object(), true; }
  bool end_array() { return --depth_, stand(), events_.end_array(), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    std::string text = error.what();  // "[json.exception...] parse error at line 1, column 2: syntax error while ..."
    if (const auto bracket = text.find("] "); bracket != std::string::npos) text = text.substr(bracket + 2);
    if (const auto colon = text.find(": "); colon != std::string::npos && text.rfind("parse error", 0) == 0)
      text = text.substr(colon + 2);
    fail(str("no valid JSON: ", printable(text)));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidInput(str(file_, ":", position_.line, ":", position_.column, ": ", what), code_);
  }
  void stand() { events_.line = position_.line, events_.column = position_.column; }
  void step_back() { line_ = position_.line_before, column_ = position_.column_before; }
  void count() {
    if (++values_ > most_values_) fail(str("more than ", most_values_, " values in a file of this size"));
  }
  bool leaf(Value value) {
    count();
    value.line = line_ ? line_ : position_.line;
    value.column = line_ ? column_ : position_.column;
    line_ = column_ = 0;
    events_.line = value.line, events_.column = value.column;
    events_.leaf(std::move(value));
    return true;
  }
  void open() {
    count();
    if (++depth_ > kMaxDepth) fail(str("nested deeper than ", kMaxDepth));
  }
  Position& position_;
  std::string file_;
  ExitCode code_;
  std::int64_t most_values_;
  JsonEvents& events_;
  std::int64_t values_ = 0;
  int depth_ = 0;
  int line_ = 0, column_ = 0;  // of a number, behind which the reader stands
};

// A tree of values.
class Tree final : public JsonEvents {
 public:
  explicit Tree(ExitCode code) : code_(code) {}
  void leaf(Value value) override { add(std::move(value)); }
  void key(std::string name) override {
    if (!open_.back().keys.insert(name).second)
      throw InvalidInput(str(place(), ": key \"", printable(name), "\" stands twice in one object"), code_);
    open_.back().key = std::move(name);
  }
  void begin_object() override { open_.push_back({Value(Value::Object{}), {}, {}}); }
  void begin_array() override { open_.push_back({Value(Value::Array{}), {}, {}}); }
  void end_object() override { close(); }
  void end_array() override { close(); }
  Value root;

 private:
  struct Open {
    Value value;
    std::string key;
    std::set<std::string> keys;
  };
  void add(Value value) {
    if (open_.empty()) {
      root = std::move(value);
      return;
    }
    Open& top = open_.back();
    if (auto* array = std::get_if<Value::Array>(&top.value.data))
      array->push_back(std::move(value));
    else
      std::get<Value::Object>(top.value.data).push_back({std::move(top.key), std::move(value)});
  }
  void close() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    value.line = line, value.column = column;
    add(std::move(value));
  }
  ExitCode code_;
  std::vector<Open> open_;
};

// The lexer holds a whole string or number before anybody can look at it, and an error copies it several times: what is
// too long is refused by a look at the bytes first.
void require_short_tokens(std::string_view text, const std::string& file, ExitCode code, std::size_t most_string) {
  constexpr std::size_t kMaxNumber = 512;
  const auto fail = [&](std::size_t at, const std::string& what) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw InvalidInput(str(printable_path(file), ":", line, ": ", what), code);
  };
  std::size_t start = 0, number = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      if (i - start > most_string + 1) fail(start, str("a string of over ", most_string, " bytes"));
      continue;
    }
    if (c == '"') in_string = true, start = i;
    number = (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E' ? number + 1 : 0;
    if (number > kMaxNumber) fail(i, str("a number of over ", kMaxNumber, " characters"));
  }
}

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

void parse_json_events(std::string_view text, const std::string& file, ExitCode code, JsonEvents& events,
                       std::size_t most_string) {
  if (text.substr(0, 3) == "\xef\xbb\xbf")
    throw InvalidInput(str(printable_path(file), ":1:1: starts with a byte-order mark; save it as plain UTF-8"), code);
  // The library takes a NUL for the end of the input, whatever stands behind it.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)
    throw InvalidInput(str(printable_path(file), ": no valid JSON: byte ", nul, " is NUL"), code);
  require_short_tokens(text, file, code, most_string);
  Position position;
  Handler handler(position, file, code, text.size(), events);
  const bool ok = nlohmann::json::sax_parse(CountingIterator{text.data(), &position},
                                            CountingIterator{text.data() + text.size(), &position}, &handler);
  check(ok, "the JSON handler throws on every error");
}

Value parse_json(std::string_view text, const std::string& file, ExitCode code, std::size_t most_string) {
  Tree tree(code);
  parse_json_events(text, file, code, tree, most_string);
  return std::move(tree.root);
}

std::string to_json(const Value& value, bool indented) {
  std::string out;
  write(value, 0, indented, out);
  return out;
}

}  // namespace sextant
