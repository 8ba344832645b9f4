#pragma once
// Measures this machine: a cluster file whose prices are those of Sextant's own kernels and communicators.
#include <functional>
#include <string>
#include <vector>

#include "sextant/cluster/cluster.h"

namespace sextant {

struct Calibration {
  Cluster cluster;
  std::vector<std::string> notes;  ///< what was measured, with its spread: comments of the file
  double speed = 0;                ///< FLOP/s of a rank, the geometric mean over shapes
  double drift = 0;                ///< of that between the start and the end of the measurement
};

/// Of `ranks` ranks (threads of this process) of `threads` threads each, all busy at once, so that they share memory as
/// they would in training. Products by shape; the rates of all other kernels from steps of two small models that the
/// executor runs; collectives by size and number of ranks. Medians of several rounds, the first of which (cold) is
/// thrown away. Less than a minute. `progress` hears what is measured.
Calibration calibrate(int ranks, int threads, const std::function<void(const std::string&)>& progress = {});

}  // namespace sextant
