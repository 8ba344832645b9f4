// Utilisation against tokens a device: fully sharded data parallelism gathers all parameters whatever the batch, so a
// small batch waits for links; tensor parallelism moves activations, so it does not care. Mixed, each has less to do
// (the scaling book's figure, on a GPU cluster and on a TPU torus). An argument names a folder for the plots.
#include <cstdio>
#include <fstream>
#include <string>

#include "sextant/sim/forecast.h"
#include "sextant/trace/plot.h"

using namespace sextant;

int main(int argc, char** argv) {
  ModelConfig model = find_model("llama2-13b");
  model.max_positions = 1 << 16;
  for (const char* name : {"h100-dgx", "tpu-v5p"}) {
    const Cluster cluster = find_cluster(name);
    constexpr int kDevices = 512;
    std::printf("llama2-13b on %d devices of %s: MFU by tokens a device\n  tokens   fsdp    fsdp x tp 8   tp 8 x dp\n",
                kDevices, name);
    std::vector<Curve> curves = {{"fsdp", {}}, {"fsdp x tp 8", {}}, {"tp 8 x dp", {}}};
    for (const std::int64_t tokens : {256, 512, 1024, 2048, 4096, 8192, 16384}) {
      std::printf("  %6lld", static_cast<long long>(tokens));
      for (std::size_t c = 0; c < 3; ++c) {
        Plan plan;
        plan.tp = c == 0 ? 1 : 8, plan.dp_shard = kDevices / plan.tp;
        plan.zero = c == 2 ? 1 : 3, plan.sequence_parallel = c > 0;
        if (plan.zero == 3) plan.reduce = GradientReduce::kMicrobatch;
        plan.recompute.full = true;
        plan.bucket = {plan.zero == 3 ? 0 : 256'000'000};
        // One sequence a data-parallel rank, as long as its tokens.
        const Workload workload{tokens * plan.tp, plan.dp_shard, DType::kBf16};
        const Forecast f = forecast(model, workload, plan, cluster);
        std::printf("  %5.1f %%    ", 100 * f.mfu);
        curves[c].points.emplace_back(static_cast<double>(tokens), 100 * f.mfu);
      }
      std::printf("\n");
    }
    if (argc > 1)
      std::ofstream(std::string(argv[1]) + "/roofline_" + name + ".svg") << plot_svg(
          std::string("Llama 2 13B on 512 of ") + name, "tokens a device", "MFU %", Scale::kLogarithmic, curves);
  }
}
