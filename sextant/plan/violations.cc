#include "sextant/plan/violations.h"

#include <algorithm>

#include "sextant/base/str.h"

namespace sextant {
namespace {

// The divisors of `whole` next to `wanted`: "2 or 4".
std::string nearest_divisors(std::int64_t whole, std::int64_t wanted) {
  std::int64_t below = 1, above = whole;
  for (std::int64_t d = 1; d * d <= whole; ++d) {
    if (whole % d) continue;
    for (const std::int64_t divisor : {d, whole / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor >= wanted) above = std::min(above, divisor);
    }
  }
  return below == above ? str(below) : str(below, " or ", above);
}

}  // namespace

void Violations::must_divide(const char* degree, std::int64_t wanted, const char* what, std::int64_t whole) {
  if (whole % wanted != 0)
    add(str(degree, " = ", wanted, " does not divide ", what, " = ", whole,
            "; nearest valid: ", nearest_divisors(whole, wanted)));
}

}  // namespace sextant
