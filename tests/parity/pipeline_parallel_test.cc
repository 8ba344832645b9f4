// The proof of pipelines against one rank.
#include "sextant/plan/pipeline_parallel.h"

#include <gtest/gtest.h>

#include "sextant/base/errors.h"
#include "tests/support/parity.h"

namespace sextant {
namespace {

// One coordinate runs any schedule's order: several stages handed on locally, weight gradients apart.
TEST(Schedules, EveryOrderOnOneCoordinateEqualsOneRank) {
  for (const ProofFamily& family : families_of_the_proof())
    for (const char* kind :
         {"naive", "gpipe", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-capped", "zb-v", "dualpipe-v"})
      for (const int ranks : {1, 2}) {
        const ProofOutcome wanted = prove(run_of(family.model, 4 * ranks, 1, 1));
        ProofRun run = run_of(family.model, 4 * ranks, ranks, 4, {1});
        run.plan.schedule = kind;
        expect_equal(prove(run), wanted, str(family.name, " ", kind, " ranks ", ranks));
      }
}

// Pipelines: every schedule that takes the shape.
TEST(PipelineParallel, EveryScheduleEqualsOneRank) {
  int seen = 0;
  for (const ProofFamily& family : families_of_the_proof()) {
    ModelConfig model = family.model;
    model.layers = 10;
    for (const std::int64_t microbatches : {1, 2, 3, 4, 5, 8, 9}) {
      const ProofOutcome wanted = prove(run_of(model, microbatches, 1, 1));
      for (const ScheduleKind& kind : schedule_kinds())
        for (const int pp : {1, 2, 3, 4})
          for (int v = kind.least_virtual; v <= std::min(3, kind.most_virtual); ++v) {
            ProofRun run = run_of(model, microbatches, 1, microbatches, {1});
            run.plan.pp = pp, run.plan.schedule = kind.id, run.plan.virtual_stages = v;
            if (!violations(kind, schedule_shape(run.plan)).empty()) continue;
            expect_equal(prove(run), wanted, str(family.name, " ", kind.id, " pp ", pp, " V ", v, " M ", microbatches));
            ++seen;
          }
    }
  }
  EXPECT_GT(seen, 900);
}

}  // namespace
}  // namespace sextant
