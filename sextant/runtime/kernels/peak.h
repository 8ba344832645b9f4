#pragma once
#include <cstdint>

namespace sextant {

/// Float32 multiply-adds on registers alone: what the arithmetic of one core can reach. A round has kFlopsPerRound.
extern const double kFlopsPerRound;
void multiply_add_rounds(std::int64_t rounds);

}  // namespace sextant
