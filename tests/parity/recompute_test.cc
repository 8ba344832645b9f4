// The proof of recomputation: not a bit changes.
#include <gtest/gtest.h>

#include "sextant/base/str.h"
#include "tests/support/parity.h"

namespace sextant {
namespace {

// What is made again has the same bits (R4: dropout too), under fused and split backward passes, in less memory.
TEST(Recompute, ChangesNoBit) {
  for (const ProofFamily& family : families_of_the_proof())
    for (const char* kind : {"1f1b", "zb-v"}) {
      ProofRun run = run_of(family.model, 4, 2, 2);
      run.plan.schedule = kind;
      const ProofOutcome kept = prove(run);
      for (const Recompute& recompute :
           {Recompute{.full = true}, Recompute{.full = true, .layers = 1}, Recompute{.ops = {"norm"}},
            Recompute{.ops = {"act"}}, Recompute{.ops = {"attention", "rope"}},
            Recompute{.ops = {"norm", "act", "attention", "rope"}}}) {
        run.plan.recompute = recompute;
        const ProofOutcome again = prove(run);
        const std::string where =
            str(family.name, " ", kind, recompute.full ? " full " : " ops ", join(recompute.ops, ","));
        EXPECT_EQ(again.gradients, kept.gradients) << where;
        for (std::size_t s = 0; s < kept.results.size(); ++s) {  // R2: nothing is counted twice
          EXPECT_EQ(again.results[s].loss, kept.results[s].loss) << where;
          EXPECT_EQ(again.results[s].tokens, kept.results[s].tokens) << where;
          EXPECT_EQ(again.results[s].grad_norm, kept.results[s].grad_norm) << where;
        }
        EXPECT_EQ(again.weights, kept.weights) << where;
        EXPECT_TRUE(again.peak_matches && again.bytes_match && again.ranks_agree) << where;
        if (recompute.full && recompute.layers < 0) {
          EXPECT_LT(again.peak, kept.peak) << where;
        }
      }
    }
}

}  // namespace
}  // namespace sextant
