#include "tests/support/parity.h"

#include <gtest/gtest.h>

namespace sextant {

std::vector<ProofFamily> families_of_the_proof() {
  return {{"gpt2", tiny_gpt2(3)},
          {"llama", tiny_llama(2)},
          {"llama tied", tiny_llama(2, 0.1, true)},
          {"qwen3", tiny_qwen3(4)}};
}

ProofRun run_of(const ModelConfig& model, std::int64_t global_batch, int shards, std::int64_t microbatches,
                Bytes bucket, int replicas) {
  ProofRun run;
  run.model = model;
  run.workload.global_batch = global_batch;
  run.plan.dp_shard = shards, run.plan.dp_replicate = replicas;
  run.plan.num_microbatches = microbatches;
  run.plan.microbatch_size = global_batch / microbatches / run.plan.data_ranks();
  run.plan.bucket = bucket;
  run.source = uneven_samples(model.vocabulary);
  // A single rank is the measure, and a thread of every process.
  run.launch = [](int ranks, const std::function<void(Communicator&)>& body) {
    ranks == 1 ? run_threads(1, body) : run_ranks(ranks, body);
  };
  return run;
}

void expect_equal(const ProofOutcome& got, const ProofOutcome& wanted, const std::string& where) {
  if (job_size() > 0 && got.results.empty()) return;  // this process was none of the ranks
  ASSERT_EQ(got.results.size(), wanted.results.size());
  for (std::size_t s = 0; s < got.results.size(); ++s) {
    EXPECT_NEAR(got.results[s].loss / wanted.results[s].loss, 1, kTolerance) << where << " loss of step " << s;
    EXPECT_NEAR(got.results[s].grad_norm / wanted.results[s].grad_norm, 1, kTolerance)
        << where << " norm of step " << s;
    EXPECT_EQ(got.results[s].tokens, wanted.results[s].tokens) << where;
  }
  const Worst gradient = compare(got.gradients, wanted.gradients), weight = compare(got.weights, wanted.weights);
  EXPECT_LE(gradient.error, kTolerance) << where << " gradient of " << gradient.tensor;
  EXPECT_LE(weight.error, kTolerance) << where << " weight " << weight.tensor;
  EXPECT_TRUE(got.ranks_agree) << where;
  EXPECT_TRUE(got.bytes_match) << where;
  EXPECT_TRUE(got.peak_matches) << where;
}

}  // namespace sextant
