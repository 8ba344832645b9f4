#pragma once
// A parsed document: what both readers (JSON and run files) yield, and what to_json writes.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sextant/base/errors.h"

namespace sextant {

struct Member;
inline constexpr int kFromArgument = -1;
struct Value {
  using Array = std::vector<Value>;
  using Object = std::vector<Member>;  ///< in the order of the file
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> data;
  int line = 0,
      column = 0;  ///< where it stood; 0 if it did not come from a file, kFromArgument if from the command line

  Value();
  Value(bool v);
  Value(int v);
  Value(std::int64_t v);
  Value(double v);
  Value(const char* v);
  Value(std::string v);
  Value(Array v);
  Value(Object v);

  /// The member of that name, or null if this is no object or has none.
  const Value* find(std::string_view key) const;
  /// Sets or adds a member of an object (a null value becomes an empty object first).
  Value& set(std::string_view key, Value value);
};
struct Member {
  std::string key;
  Value value;
};
inline Value::Value() = default;
inline Value::Value(bool v) : data(v) {}
inline Value::Value(int v) : data(std::int64_t{v}) {}
inline Value::Value(std::int64_t v) : data(v) {}
inline Value::Value(double v) : data(v) {}
inline Value::Value(const char* v) : data(std::string(v)) {}
inline Value::Value(std::string v) : data(std::move(v)) {}
inline Value::Value(Array v) : data(std::move(v)) {}
inline Value::Value(Object v) : data(std::move(v)) {}

/// Strict JSON (RFC 8259). Refuses, with file:line:column, what other readers let pass: duplicate keys, integers beyond
/// 63 bits, a byte-order mark, NUL, nesting deeper than 64, strings over `most_string` bytes, over 100,000 values and
/// one for every eight bytes. Throws InvalidInput with `exit_code`.
Value parse_json(std::string_view text, const std::string& file, ExitCode exit_code = ExitCode::kInvalid,
                 std::size_t most_string = std::size_t{1} << 20);

/// JSON text of a value: one line, or indented by two.
std::string to_json(const Value& value, bool indented = false);

/// Run files: a TOML subset. `[section]` headers, `key = value` lines, `#` comments; values are "strings" with the
/// usual escapes, integers (1_000 too), floats, true/false and arrays of those. Every other thing is an error with
/// file:line:column. Result: an object of objects.
Value parse_run_file(std::string_view text, const std::string& file);

/// One value as on the right side of `key = value`; a bare word is a string. For `section.key=value` arguments.
Value parse_run_value(std::string_view text, const std::string& where);

}  // namespace sextant
