#pragma once
// Typed, checked reading of an object's members: wrong types, values out of range and unknown keys are errors that
// name the place, what was found and what would be valid.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sextant/base/value.h"

namespace sextant {

class Fields {
 public:
  /// `file` and `section` make the place in messages: "run.toml:12:9: [plan] tp". A null object reads as empty.
  Fields(const Value* object, std::string file, std::string section);

  bool has(std::string_view key) const;  ///< present and not null
  const Value* member(std::string_view key) const { return object_ ? object_->find(key) : nullptr; }
  std::int64_t integer(std::string_view key, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t most = std::numeric_limits<std::int64_t>::max());
  double number(std::string_view key, double least, double most);
  bool boolean(std::string_view key);
  std::string text(std::string_view key);
  std::string one_of(std::string_view key, const std::vector<std::string>& choices);
  std::vector<std::string> texts(std::string_view key);
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t least, std::int64_t most);
  std::vector<double> numbers(std::string_view key, std::size_t count, double least, double most);

  std::int64_t integer_or(std::string_view key, std::int64_t otherwise,
                          std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
    return has(key) ? integer(key, least, most) : (known(key), otherwise);
  }
  double number_or(std::string_view key, double otherwise, double least, double most) {
    return has(key) ? number(key, least, most) : (known(key), otherwise);
  }
  bool boolean_or(std::string_view key, bool otherwise) { return has(key) ? boolean(key) : (known(key), otherwise); }
  std::string text_or(std::string_view key, const std::string& otherwise) {
    return has(key) ? text(key) : (known(key), otherwise);
  }
  std::string one_of_or(std::string_view key, const std::string& otherwise, const std::vector<std::string>& choices) {
    return has(key) ? one_of(key, choices) : (known(key), otherwise);
  }

  /// Marks a key as known without reading it.
  void known(std::string_view key);
  /// Throws InvalidInput if the object has a key that nobody asked for, with the nearest known name.
  void finish() const;
  /// Throws InvalidInput about this key.
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;

 private:
  const Value& require(std::string_view key, const std::string& expected);
  const Value* object_;
  std::string file_, section_;
  std::vector<std::string> known_;
};

}  // namespace sextant
