#include "tests/support/ranks.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sextant/runtime/comm/mpi.h"
#include "sextant/runtime/comm/threads.h"

namespace sextant {

int job_size() {
  static const auto job = mpi_process();
  return job ? job->size : 0;
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  if (job_size() == 0) return run_threads(ranks, body);
  if (ranks > job_size()) return;
  run_mpi([&](Communicator& world) {
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    if (world.rank() < ranks) body(*world.group(members));
  });
}

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (job_size() > 0 && mpi_process()->rank > 0) delete listeners.Release(listeners.default_result_printer());
  const int code = RUN_ALL_TESTS();
  return testing::UnitTest::GetInstance()->test_to_run_count() == 0 ? 1 : code;  // a filter that fits nothing
}

}  // namespace sextant
