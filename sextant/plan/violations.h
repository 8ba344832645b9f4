#pragma once
// What is wrong with a plan, in words.
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

/// Collects violations, each with the nearest valid values.
class Violations {
 public:
  void add(std::string what) { list_.push_back(std::move(what)); }
  void add(const std::vector<std::string>& more) { list_.insert(list_.end(), more.begin(), more.end()); }
  /// `degree` = `wanted` must divide `what`, which is `whole`.
  void must_divide(const char* degree, std::int64_t wanted, const char* what, std::int64_t whole);
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

}  // namespace sextant
