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
// What a rank tells the launcher on its machine, if one started it: that it hears signals; what to exit with.
void tell_launcher_up();
void tell_launcher_code(int code);
/// The launcher on this machine was killed.
bool launcher_is_gone();
/// The caller wants that this signal does nothing (nohup).
bool is_ignored(int signal);

}  // namespace sextant::cli
