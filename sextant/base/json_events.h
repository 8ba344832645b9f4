#pragma once
// JSON as a stream of checked events, for readers that build their own structure: a tree of values may take many times
// the memory of its text.
#include <string>
#include <string_view>

#include "sextant/base/value.h"

namespace sextant {

class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  /// A string, number, boolean or null; `value` knows its place.
  virtual void leaf(Value value) = 0;
  virtual void key(std::string name) = 0;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  /// Where the reader stands; set by parse_json_events.
  std::string file;
  int line = 0, column = 0;
  std::string place() const { return str(file, ":", line, ":", column); }
};

/// Reads strict JSON with the limits of parse_json, but for duplicate keys, which are the receiver's to find. Events
/// may throw. Throws InvalidInput with `exit_code`.
void parse_json_events(std::string_view text, const std::string& file, ExitCode exit_code, JsonEvents& events,
                       std::size_t most_string = std::size_t{1} << 20);

}  // namespace sextant
