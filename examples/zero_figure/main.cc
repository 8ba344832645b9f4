// What ZeRO saves: bytes of parameters, gradients and optimizer on a device, as the program's buckets hold them; and
// the largest GPT whose step fits on eight devices. The first is figure 1 of Rajbhandari et al. 2020: 7.5 billion
// parameters on 64 devices, 2 + 2 + 12 bytes a parameter.
#include <cstdio>

#include "sextant/sim/forecast.h"

using namespace sextant;

namespace {

Plan plan_of(int devices, int zero) {
  Plan plan;
  plan.dp_shard = devices, plan.zero = zero, plan.gradient_dtype = DType::kBf16,
  plan.bucket = {zero == 3 ? 0 : 256'000'000};
  plan.reduce = zero >= 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
  plan.recompute.full = true;
  return plan;
}

// A GPT of so many layers, wide in proportion: 128 times as wide as deep, as GPT-3 is.
ModelConfig gpt(std::int64_t layers) {
  ModelConfig c = find_model("megatron-gpt-7.5b");
  c.layers = layers, c.width = 128 * layers, c.heads = c.kv_heads = layers, c.head_width = 128,
  c.ffn_width = 4 * c.width;
  return c;
}

bool fits(std::int64_t layers, int zero, const Cluster& cluster) {
  const Workload workload{2048, 8, DType::kBf16};
  const Plan plan = plan_of(8, zero);
  Forecast f;
  forecast_memory(build_program(build_model(gpt(layers), sizes_of(plan, workload)), plan), cluster, f);
  return f.peak <= cluster.device.memory;
}

}  // namespace

int main() {
  const ModelConfig model = find_model("megatron-gpt-7.5b");
  const double parameters = static_cast<double>(build_model(model, {}).num_parameters());
  std::printf("%.2f billion parameters on 64 devices, 2 + 2 + 12 bytes each:\n", parameters / 1e9);
  for (int zero = 0; zero < 4; ++zero) {
    const Plan plan = plan_of(64, zero);
    const Program program = build_program(build_model(model, sizes_of(plan, {2048, 64, DType::kBf16})), plan);
    double bytes = 0;
    for (const Bucket& bucket : program.by_pp[0].buckets) {
      const Stored s = stored_elements(program, bucket);
      bytes += static_cast<double>(2 * s.parameters + 2 * s.gradients + adamw_state(DType::kBf16).value * s.state);
    }
    std::printf("  zero %d  %6.1f GB a device\n", zero, bytes / 1e9);
  }
  std::printf("\nlargest GPT on 8 devices, a sequence of 2048 tokens each, full recomputation:\n");
  for (const char* name : {"a100-dgx", "h200-dgx"}) {
    const Cluster cluster = find_cluster(name);
    for (int zero = 0; zero < 4; ++zero) {
      std::int64_t layers = 4;
      while (fits(layers + 1, zero, cluster)) ++layers;
      std::printf("  %-8s  zero %d  %5.1f billion (%lld layers of width %lld)\n", name, zero,
                  static_cast<double>(build_model(gpt(layers), {}).num_parameters()) / 1e9,
                  static_cast<long long>(layers), static_cast<long long>(128 * layers));
    }
  }
}
