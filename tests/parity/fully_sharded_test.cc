// The proof of ZeRO and FSDP against one rank.
#include <gtest/gtest.h>

#include "tests/support/parity.h"

namespace sextant {
namespace {

// ZeRO: every stage, reduced once a step or after each microbatch, over shards and replicas; buckets of awkward sizes.
TEST(FullySharded, EveryStageEqualsOneRank) {
  for (const ProofFamily& family : families_of_the_proof())
    for (const auto& [ranks, replicas] : {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 1}, {2, 2}})
      for (const int microbatches : {1, 2, 3}) {
        const int data_ranks = ranks * replicas, batch = data_ranks * microbatches;
        const ProofOutcome wanted = prove(run_of(family.model, batch, 1, 1));
        for (const int zero : {1, 2, 3})
          for (const GradientReduce reduce : {GradientReduce::kStep, GradientReduce::kMicrobatch})
            for (const Bytes bucket : {Bytes{0}, Bytes{1}}) {
              if (reduce == GradientReduce::kMicrobatch && zero < 2) continue;
              ProofRun run = run_of(family.model, batch, ranks, microbatches, bucket, replicas);
              run.plan.zero = zero, run.plan.reduce = reduce, run.plan.live_units = 1 + microbatches % 3;
              expect_equal(prove(run), wanted,
                           str(family.name, " zero ", zero, " ranks ", ranks, "x", replicas, " microbatches ",
                               microbatches, " bucket ", bucket.value));
            }
      }
}

}  // namespace
}  // namespace sextant
