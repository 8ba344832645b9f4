// The proof of context parallelism against one rank.
#include <gtest/gtest.h>

#include "tests/support/parity.h"

namespace sextant {
namespace {

// Queries are split; keys and values are gathered, or heads are exchanged for the sequence (Ulysses).
TEST(ContextParallel, EqualsOneRank) {
  int seen = 0;
  for (const ProofFamily& family : families_of_the_proof()) {
    const ProofOutcome wanted = prove(run_of(family.model, 4, 1, 1));
    for (const int cp : {2, 4})
      for (const CpKind kind : {CpKind::kAllGather, CpKind::kUlysses})
        for (const int tp : {1, 2})
          for (const Slices slices : {Slices::kContiguous, Slices::kZigzag}) {
            ProofRun run = run_of(family.model, 4, 1, 2, {1});
            run.plan.cp = cp, run.plan.cp_kind = kind, run.plan.cp_slices = slices, run.plan.tp = tp,
            run.plan.sequence_parallel = tp > 1;
            if (!violations(run.plan, run.model, run.workload).empty()) continue;
            ++seen;
            expect_equal(prove(run), wanted,
                         str(family.name, " cp ", cp, " ", name_of(kind), " tp ", tp,
                             slices == Slices::kZigzag ? " zigzag" : ""));
          }
  }
  EXPECT_EQ(seen, 44);
}

}  // namespace
}  // namespace sextant
