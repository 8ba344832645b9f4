#pragma once
#include <string>

#include "sextant/program/program.h"

namespace sextant {

/// What a program computes, by symbols: every value is a hash of what it was made from, every sum of gradients
/// forgets its order, whatever is read before it is there, while it is on its way, or behind its end is a value of its
/// own. Two programs with the same text here leave the same weights behind, whatever the numbers. Knows nothing of the
/// checker.
std::string meaning_of(const Program& program);

}  // namespace sextant
