#pragma once
// Units are types, so that only what has a meaning compiles.
#include <compare>
#include <cstdint>
#include <string>

namespace sextant {

struct Bytes {
  std::int64_t value = 0;
  auto operator<=>(const Bytes&) const = default;
  Bytes& operator+=(Bytes other) { return value += other.value, *this; }
  Bytes& operator-=(Bytes other) { return value -= other.value, *this; }
  friend Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  friend Bytes operator-(Bytes a, Bytes b) { return {a.value - b.value}; }
  friend Bytes operator*(Bytes a, std::int64_t n) { return {a.value * n}; }
};

struct Seconds {
  double value = 0;
  auto operator<=>(const Seconds&) const = default;
  Seconds& operator+=(Seconds other) { return value += other.value, *this; }
  friend Seconds operator+(Seconds a, Seconds b) { return {a.value + b.value}; }
  friend Seconds operator-(Seconds a, Seconds b) { return {a.value - b.value}; }
  friend double operator/(Seconds a, Seconds b) { return a.value / b.value; }
};

/// "1.2 GB": decimal, three significant digits.
std::string human(Bytes bytes);
/// "1.2 ms", "3 m 20 s", "2 h 5 m".
std::string human(Seconds seconds);
/// "1.23 G" with a unit behind it: human(2.5e9, "FLOP/s").
std::string human(double number, const char* unit);

}  // namespace sextant
