// The proof of tensor and sequence parallelism against one rank.
#include <gtest/gtest.h>

#include "tests/support/parity.h"

namespace sextant {
namespace {

// Tensor and sequence parallelism: a vocabulary of 37 that divides by nothing, 2 kv heads on up to 4 ranks, norms over
// split heads, dropout on.
TEST(TensorParallel, EqualsOneRank) {
  int seen = 0;
  std::vector<ProofFamily> families = families_of_the_proof();
  families.push_back({"olmo2", tiny_of("olmo2", 0.1)});
  for (const ProofFamily& family : families) {
    const ProofOutcome wanted = prove(run_of(family.model, 4, 1, 1));
    for (const int tp : {1, 2, 4})
      for (const bool sp : {false, true})
        for (const WInputs w : {WInputs::kGather, WInputs::kKeep})
          for (const char* kind : {"1f1b", "zb-h1"}) {
            ProofRun run = run_of(family.model, 4, 1, 2, {1});
            run.plan.tp = tp, run.plan.sequence_parallel = sp, run.plan.w_inputs = w, run.plan.schedule = kind;
            if (!violations(run.plan, run.model, run.workload).empty()) continue;
            ++seen;
            expect_equal(prove(run), wanted,
                         str(family.name, " tp ", tp, sp ? " sp " : " ", kind, w == WInputs::kKeep ? " keep" : ""));
          }
  }
  EXPECT_EQ(seen, 100);
}

}  // namespace
}  // namespace sextant
