// A build without MPI: ranks are threads only.
#include "sextant/base/errors.h"
#include "sextant/runtime/comm/mpi.h"

namespace sextant {

bool has_mpi() { return false; }

void run_mpi(const std::function<void(Communicator&)>&, const CommOptions&, const Report&) {
  throw InvalidInput("this sextant was built without MPI; build it with -DSEXTANT_MPI=ON, or leave out --backend mpi",
                     ExitCode::kUsage);
}

}  // namespace sextant
