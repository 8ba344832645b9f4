// What is known of MPI without it: the environment of a job, and how to start one.
#include <cstdlib>

#include "sextant/runtime/comm/mpi.h"

namespace sextant {
namespace {

std::optional<int> number_of(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return {};
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == 0 && value >= 0 ? std::optional<int>(static_cast<int>(value)) : std::nullopt;
}

}  // namespace

std::optional<MpiProcess> mpi_process() {
  if (const auto rank = number_of("OMPI_COMM_WORLD_RANK"), size = number_of("OMPI_COMM_WORLD_SIZE"); rank && size)
    return MpiProcess{*rank, *size, std::getenv("SLURM_STEP_ID") ? "srun" : "mpirun"};
  // srun sets these for every program; only with a PMI library behind it does a step have ranks for MPI.
  if (const auto rank = number_of("PMIX_RANK"), size = number_of("SLURM_NTASKS"); rank && size)
    return MpiProcess{*rank, *size, "srun"};
  if (const auto rank = number_of("PMI_RANK"), size = number_of("PMI_SIZE"); rank && size)
    return MpiProcess{*rank, *size, "srun"};
  return {};
}

std::span<const MpiSetting> mpi_settings() {
  static constexpr MpiSetting kSettings[] = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1", "mpirun refuses root otherwise"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", "and asks twice"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1", "more ranks than cores"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none", "several ranks share a core without being bound to one"},
      {"OMPI_MCA_mpi_yield_when_idle", "1", "a waiting rank offers its core"},
      {"OMPI_MCA_plm", "isolated", "ranks on this machine need no ssh"},
      {"OMPI_MCA_orte_execute_quiet", "1", "an error is said once, by sextant"},
  };
  return kSettings;
}

}  // namespace sextant
