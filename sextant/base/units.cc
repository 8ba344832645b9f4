#include "sextant/base/units.h"

#include <cmath>
#include <cstdio>

namespace sextant {
namespace {

std::string scaled(double number, const char* const* units, int num_units) {
  int unit = 0;
  while (std::abs(number) >= 999.5 && unit + 1 < num_units) number /= 1000, ++unit;
  char text[64];
  const int decimals = std::abs(number) >= 99.95 || (unit == 0 && number == std::floor(number)) ? 0
                       : std::abs(number) >= 9.995                                              ? 1
                                                                                                : 2;
  std::snprintf(text, sizeof text, "%.*f %s", decimals, number, units[unit]);
  return text;
}

}  // namespace

std::string human(Bytes bytes) {
  static const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  return scaled(static_cast<double>(bytes.value), units, 6);
}

std::string human(double number, const char* unit) {
  static const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  return scaled(number, prefixes, 6) + unit;
}

std::string human(Seconds seconds) {
  const double s = seconds.value;
  char text[64];
  if (!std::isfinite(s)) return "?";
  if (s < 1e-3) {
    std::snprintf(text, sizeof text, "%.1f us", s * 1e6);
  } else if (s < 1) {
    std::snprintf(text, sizeof text, "%.1f ms", s * 1e3);
  } else if (s < 60) {
    std::snprintf(text, sizeof text, "%.1f s", s);
  } else if (s < 3600) {
    std::snprintf(text, sizeof text, "%d m %02d s", static_cast<int>(s) / 60, static_cast<int>(s) % 60);
  } else {
    std::snprintf(text, sizeof text, "%d h %02d m", static_cast<int>(s / 3600), static_cast<int>(s / 60) % 60);
  }
  return text;
}

}  // namespace sextant
