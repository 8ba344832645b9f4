#pragma once
// Ranks as processes of an MPI job (mpirun, srun), on as many machines as it has. Ranks of one node share memory and
// use it as threads do; MPI carries what crosses nodes, and starts everything.
#include <functional>
#include <optional>

#include "sextant/runtime/comm/communicator.h"

namespace sextant {

/// This process in the job that started it.
struct MpiProcess {
  int rank = 0, size = 1;
  std::string started_by;  ///< "mpirun", "srun"
};
/// From the environment; nothing if no MPI job started this process.
std::optional<MpiProcess> mpi_process();
/// Whether this program was built with MPI.
bool has_mpi();

/// Runs `body` as this process's rank of the job. When one rank throws, the others end with PeerFailed; of several that
/// throw, one has the word: with `report` it says so and then ends with PeerFailed too, else it throws on. Throws
/// InvalidInput without MPI. A process may have at most 4096 groups in all its runs.
void run_mpi(const std::function<void(Communicator&)>& body, const CommOptions& options = {},
             const Report& report = {});

/// Settings (environment) under which `mpirun` starts any number of ranks on this machine, also as root, with more
/// ranks than cores, and without a network. With a word on each.
struct MpiSetting {
  const char* name;
  const char* value;
  const char* why;
};
std::span<const MpiSetting> mpi_settings();

}  // namespace sextant
