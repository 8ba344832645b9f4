#pragma once
#include <cstdint>
#include <string_view>

namespace sextant {

enum class DType : std::uint8_t { kF64, kF32, kI32, kI64 };

constexpr std::int64_t size_of(DType dtype) { return dtype == DType::kF64 || dtype == DType::kI64 ? 8 : 4; }
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "?";
}

}  // namespace sextant
