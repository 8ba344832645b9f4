#pragma once
#include <cstdint>
#include <string_view>

namespace sextant {

enum class DType : std::uint8_t { kF64, kF32, kBf16, kI32, kI64, kU8 };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}
constexpr bool is_float(DType dtype) { return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBf16; }
/// What sums and statistics of values of this type are held in.
constexpr DType statistic_of(DType dtype) { return dtype == DType::kBf16 ? DType::kF32 : dtype; }
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kU8:
      return "u8";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "?";
}

}  // namespace sextant
