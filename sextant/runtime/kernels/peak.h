#pragma once
#include <cstdint>

namespace sextant {

/// Float32 multiply-adds on registers alone: what the arithmetic of one core can reach. A round has kFlopsPerRound.
inline constexpr double kFlopsPerRound = 2.0 * 16 * 16;
void multiply_add_rounds(std::int64_t rounds);

}  // namespace sextant
