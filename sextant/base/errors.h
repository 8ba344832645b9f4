#pragma once
// Kinds of error. Invalid input throws, an expected no is a value (a Refusal), the impossible is a check.
#include <stdexcept>
#include <string>

#include "sextant/base/str.h"

namespace sextant {

/// What the program exits with; documented in docs/errors.md and stable.
enum class ExitCode {
  kDone = 0,
  kInternal = 1,
  kUsage = 2,       ///< the command line is off
  kInvalid = 3,     ///< a file or a value in it is off
  kDoesNotFit = 4,  ///< valid, but the memory is not there
  kCorrupt = 5,     ///< a data file is damaged or hostile
  kRankDied = 6,    ///< a rank ended and took the run along
  kHang = 7,        ///< a rank did not come to a collective
  kDiverged = 8,    ///< the numbers went wrong (NaN or infinite loss)
  kStorage = 9,     ///< a file could not be read or written
  kInterrupted = 130
};

/// The caller gave something that cannot be used and can mend it. The text is complete: what, where,
/// what was found, what would be valid.
class InvalidInput : public std::runtime_error {
 public:
  explicit InvalidInput(const std::string& what, ExitCode code = ExitCode::kInvalid)
      : std::runtime_error(what), exit_code(code) {}
  ExitCode exit_code;
};

/// Our own bug: the text has file:line.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws InternalError unless `condition`; `claim` states what should have been true.
inline void check(bool condition, const char* claim, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!condition) throw InternalError(str(file, ":", line, ": this should hold but does not: ", claim));
}

}  // namespace sextant
