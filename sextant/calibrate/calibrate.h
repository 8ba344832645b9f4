#pragma once
// Measures this machine: a cluster file whose prices are those of Sextant's own kernels and communicators.
#include <functional>
#include <string>
#include <vector>

#include "sextant/cluster/cluster.h"
#include "sextant/runtime/comm/communicator.h"

namespace sextant {

struct Calibration {
  Cluster cluster;
  std::vector<std::string> notes;  ///< what was measured, with its spread: comments of the file
  double speed = 0;                ///< FLOP/s of a rank, the geometric mean over shapes
  double drift = 0;                ///< of that between the start and the end of the measurement
};

/// Runs a body on every rank, and returns when all are done.
using OnRanks = std::function<void(const std::function<void(Communicator&)>&)>;

/// Of `ranks` ranks of `threads` threads each, all busy at once, so that they share memory as they would in training.
/// `on_ranks` makes them: threads of this process, or (called by all processes of a job) the job's; what is returned is
/// of use on the first rank. Products by shape; the rates of all other kernels from steps of two small models that the
/// executor runs; collectives by size and number of ranks. Medians of several rounds, the first of which (cold) is
/// thrown away. Less than a minute. `progress` hears what is measured.
Calibration calibrate(int ranks, int threads, const OnRanks& on_ranks,
                      const std::function<void(const std::string&)>& progress = {});

}  // namespace sextant
