#pragma once
// Tests that run on both backends: as they are, ranks are threads; under mpirun, its ranks are processes.
#include <functional>

#include "sextant/runtime/comm/communicator.h"

namespace sextant {

/// Number of processes of this job; 0 outside of mpirun.
int job_size();
/// `body` on `ranks` ranks. Of more processes than that the last ones look on, and with fewer nothing is run: an mpirun
/// of more has its turn.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);
/// Runs all tests; only the first process of a job prints.
int run_tests(int argc, char** argv);

}  // namespace sextant
