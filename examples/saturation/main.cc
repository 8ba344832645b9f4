// What saturates. Tensor parallelism: products shrink with its degree, what starts them and their collectives does not.
// Microbatches: larger ones multiply better and leave fewer of them to fill the pipeline. An argument names a folder
// for the plots.
#include <cstdio>
#include <fstream>
#include <string>

#include "sextant/sim/forecast.h"
#include "sextant/trace/plot.h"

using namespace sextant;

int main(int argc, char** argv) {
  const Cluster cluster = find_cluster("h100-dgx");
  const ModelConfig model = find_model("llama3.1-70b");

  std::printf("llama3.1-70b on 64 H100, 64 sequences of 8192 tokens: tp x dp, zero 1, full recomputation\n");
  std::printf("  tp   compute   tp, in its way   step      MFU\n");
  Curve mfu{"MFU", {}}, exposed{"tp not hidden", {}};
  for (const int tp : {1, 2, 4, 8, 16, 32, 64}) {
    Plan plan;
    plan.tp = tp, plan.dp_shard = 64 / tp, plan.zero = plan.dp_shard > 1 ? 1 : 0, plan.sequence_parallel = tp > 1;
    plan.recompute.full = true;
    plan.bucket = {256'000'000};
    plan.num_microbatches = tp;
    const Forecast f = forecast(model, {8192, 64, DType::kBf16}, plan, cluster);
    std::printf("  %2d   %6.2f s   %6.2f s         %6.2f s  %4.1f %%\n", tp, (f.time.compute + f.time.imbalance).value,
                f.time.tp.value, f.step().value, 100 * f.mfu);
    mfu.points.emplace_back(tp, 100 * f.mfu), exposed.points.emplace_back(tp, 100 * (f.time.tp / f.step()));
  }

  std::printf("\nllama3.1-70b on 256 H100, 256 sequences, tp 8 pp 8 dp 4, zero 1: microbatch size\n");
  std::printf("  size  number   compute   bubble    step      MFU\n");
  Curve by_size{"MFU", {}}, bubble{"bubble", {}};
  for (const int size : {1, 2, 4, 8, 16}) {
    Plan plan;
    plan.tp = 8, plan.pp = 8, plan.dp_shard = 4, plan.zero = 1, plan.sequence_parallel = true;
    plan.bucket = {256'000'000};
    plan.recompute.full = true;
    plan.microbatch_size = size, plan.num_microbatches = 256 / 4 / size;
    const Forecast f = forecast(model, {2048, 256, DType::kBf16}, plan, cluster);
    std::printf("  %4d  %6d   %6.3f s  %6.3f s  %6.3f s  %4.1f %%\n", size, static_cast<int>(plan.num_microbatches),
                (f.time.compute + f.time.imbalance).value, f.time.bubble.value, f.step().value, 100 * f.mfu);
    by_size.points.emplace_back(size, 100 * f.mfu), bubble.points.emplace_back(size, 100 * (f.time.bubble / f.step()));
  }
  if (argc < 2) return 0;
  const std::string folder = argv[1];
  std::ofstream(folder + "/tensor_parallel.svg")
      << plot_svg("Llama 3.1 70B on 64 H100: tensor parallelism", "tp", "%", Scale::kLogarithmic, {mfu, exposed});
  std::ofstream(folder + "/microbatch.svg")
      << plot_svg("Llama 3.1 70B on 256 H100, tp 8 pp 8: microbatch size", "sequences of a microbatch", "%",
                  Scale::kLogarithmic, {by_size, bubble});
}
