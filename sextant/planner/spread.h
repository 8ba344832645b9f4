#pragma once
// How much a forecast moves with what it assumes.
#include "sextant/planner/planner.h"

namespace sextant {

/// A step with one assumption changed.
struct Assumption {
  std::string what;
  Seconds step;
};
struct Spread {
  Seconds step;                     ///< as forecast
  std::vector<Assumption> changed;  ///< the greatest change first
  Seconds least, greatest;          ///< if all that shortens it, or all that lengthens it, comes together
};
/// Tries what the prices cannot know of a run: how launches are made, what devices and links sustain, whether what goes
/// over ep is hidden, and how unevenly experts are visited. Sizes of the changes: two stacks on one device differ by 10
/// % in what they sustain (SimuMax and Megatron-Bridge on B200, docs/validation.md); links reach 10 % less under other
/// traffic; a launch costs nothing in a graph, and twice as much without one; an eager host takes 50 us an op; real
/// routers leave 10 % more rows on the fullest rank.
Spread spread_of(const Request& request, const Plan& plan);

}  // namespace sextant
