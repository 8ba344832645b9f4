#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "sextant/program/program.h"

namespace sextant {

/// What a program computes, by symbols: every value is a hash of what it was made from, every sum of gradients
/// forgets its order, whatever is read before it is there, while it is on its way, or behind its end is a value of its
/// own. Two programs with the same text here leave the same weights behind, whatever the numbers. Knows nothing of the
/// checker.
std::string meaning_of(const Program& program);

/// The symbols of all weights behind the step, by bucket. Programs of one model and one number of microbatches that
/// lay every unit in a bucket of its own leave the same ones behind, whatever the schedule, the number of coordinates
/// and the ZeRO stage.
std::map<std::string, std::uint64_t> weights_of(const Program& program);

}  // namespace sextant
