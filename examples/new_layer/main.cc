// A new layer is one stem: parallel_block.{h,cc}, a function that lists ops. It stands between Llama's embedding and
// head here, is lowered under sequence parallelism, and trains on one and on three ranks with equal gradients.
#include <iostream>

#include "parallel_block.h"
#include "sextant/runtime/train/proof.h"

using namespace sextant;

int main() {
  ProofRun run;
  run.model = read_config(
      parse_json(
          R"({"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40, "vocab_size": 37, "max_position_embeddings": 16})",
          "example"),
      "example");
  run.build = [](const ModelConfig& config, Sizes sizes) {
    Model model = build_model(config, sizes);
    for (int i = 0; i < config.layers; ++i)
      model.layers[static_cast<std::size_t>(i) + 1] = parallel_block(config, i, sizes);
    return model;
  };
  run.workload = {16, 6, DType::kF64};
  run.source = uneven_samples(37);

  Plan split;
  split.tp = 2, split.sequence_parallel = true;
  const LayerSplit layer_split = split_of(split);
  const Unit unit = lower(parallel_block(run.model, 0, {6, 16, DType::kF64}), layer_split);
  for (const NamedTraffic& t : traffic(unit, unit.f, layer_split.mesh))
    std::cout << "tp 2 + sp, F: " << name_of(t.traffic.kind) << " -> " << t.what << ", " << t.traffic.bytes.value
              << " B\n";

  run.plan.microbatch_size = 6;
  const ProofOutcome one = prove(run);
  run.plan.dp_shard = 3, run.plan.microbatch_size = 1, run.plan.num_microbatches = 2;
  const ProofOutcome three = prove(run);
  std::cout << "gradients on three ranks equal those of one: "
            << (compare(three.gradients, one.gradients).error < 1e-10 ? "yes" : "NO") << "\n"
            << "bytes as promised: " << (three.bytes_match ? "yes" : "NO")
            << ", peak memory as promised: " << (three.peak_matches ? "yes" : "NO") << "\n";
}
