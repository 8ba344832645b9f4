#pragma once
// Runs of a proof, and what all of them must show.
#include "sextant/runtime/train/proof.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny.h"

namespace sextant {

/// Sums of a few thousand float64 terms in another order: about 1e-14, with room for depth.
inline constexpr double kTolerance = 1e-10;

struct ProofFamily {
  std::string name;
  ModelConfig model;
};
std::vector<ProofFamily> families_of_the_proof();

ProofRun run_of(const ModelConfig& model, std::int64_t global_batch, int shards, std::int64_t microbatches,
                Bytes bucket = {0}, int replicas = 1);

/// Losses, norms, every gradient and the last weights are equal, all ranks have the same, and bytes and peak are those
/// promised.
void expect_equal(const ProofOutcome& got, const ProofOutcome& wanted, const std::string& where);

}  // namespace sextant
