#pragma once
// Ranks as processes: what `--backend mpi` does, and what holds under mpirun and srun.
#include <functional>

#include "cli/cli.h"
#include "sextant/runtime/comm/mpi.h"

namespace sextant::cli {

enum class Backend { kThreads, kMpi };
/// --backend, or what the environment says. Throws InvalidInput (usage).
Backend backend_of(const Arguments& arguments);

/// Runs this command again under mpirun, on `ranks` ranks of this machine, and returns its exit code. Says what it sets
/// for Open MPI. Throws InvalidInput if mpirun is missing.
int start_mpirun(const Arguments& arguments, int ranks);
/// Tells start_mpirun, if it started this process, what to exit with.
void write_exit_code(int code);

}  // namespace sextant::cli
