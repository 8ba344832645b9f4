// Megatron's scaling table (Narayanan et al. 2021, table 1: 1.7 billion to 1 trillion parameters on 32 to 3072 A100):
// their plans priced, what they measured, and what the planner would take with the same devices, batch and software.
#include <cstdio>
#include <string>

#include "sextant/planner/planner.h"

using namespace sextant;

namespace {

struct Published {
  const char* billions;
  std::int64_t layers, width, heads;
  int devices, tp, pp, virtual_stages, microbatch;
  std::int64_t batch;
  double teraflops;  // measured, a device, with recomputation
};
constexpr Published kRows[] = {
    {"1.7", 24, 2304, 24, 32, 1, 1, 1, 16, 512, 137},         {"3.6", 30, 3072, 32, 64, 2, 1, 1, 16, 512, 138},
    {"7.5", 36, 4096, 32, 128, 4, 1, 1, 16, 512, 142},        {"18.4", 40, 6144, 48, 256, 8, 1, 1, 8, 1024, 135},
    {"39.1", 48, 8192, 64, 512, 8, 2, 1, 4, 1536, 138},       {"76.1", 60, 10240, 80, 1024, 8, 4, 3, 2, 1792, 140},
    {"145.6", 80, 12288, 96, 1536, 8, 8, 2, 2, 2304, 148},    {"310.1", 96, 16384, 128, 1920, 8, 16, 2, 1, 2160, 155},
    {"529.6", 105, 20480, 128, 2520, 8, 35, 3, 1, 2520, 163}, {"1008", 128, 25600, 160, 3072, 8, 64, 1, 1, 3072, 163}};

ModelConfig model_of(const Published& row) {
  ModelConfig c = find_model("megatron-gpt-7.5b");
  c.layers = row.layers, c.width = row.width, c.heads = c.kv_heads = row.heads, c.head_width = row.width / row.heads;
  c.ffn_width = 4 * row.width;
  // Software of 2021: scores, masks and logits are kept.
  c.attention_core = AttentionCore::kUnfused, c.stored_masks = c.head.stored_logits = true;
  c.dropout = c.attention_dropout = 0.1;
  return c;
}

// Hardware FLOPs of a step, recomputation counted: section 5.1 of the paper.
double flops_of(const Published& row) {
  const auto l = static_cast<double>(row.layers), h = static_cast<double>(row.width), s = 2048.0, v = 51200.0;
  return 96 * static_cast<double>(row.batch) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

std::string words(const Plan& p) {
  std::string out = "tp " + std::to_string(p.tp) + " pp " + std::to_string(p.pp);
  if (p.virtual_stages > 1) out += " V " + std::to_string(p.virtual_stages);
  out += " b " + std::to_string(p.microbatch_size);
  return out + (p.recompute.full ? " full" : p.recompute.any() ? " " + p.recompute.ops[0] : " none");
}

}  // namespace

int main() {
  Cluster cluster = find_cluster("a100-dgx");
  cluster.device.overlaps_layers = false;  // as their software of 2021
  std::printf("                          theirs: TFLOP/s a device                      planner's\n");
  std::printf("    B  A100  tp pp V  b   measured  priced    step   recompute full     step   plan\n");
  for (const Published& row : kRows) {
    const ModelConfig model = model_of(row);
    Plan plan;
    plan.tp = row.tp, plan.pp = row.pp, plan.dp_shard = row.devices / (row.tp * row.pp);
    plan.virtual_stages = row.virtual_stages > 1 ? row.virtual_stages : 0;
    plan.schedule = row.virtual_stages > 1 ? "interleaved" : "1f1b";
    plan.recompute.full = true;
    plan.microbatch_size = row.microbatch;
    plan.num_microbatches = row.batch / (plan.dp_shard * row.microbatch);
    const int stages = row.pp * row.virtual_stages;
    if (row.pp > 1 && row.layers % stages == 0) {  // embedding and head come on top of the ends
      plan.stages.assign(static_cast<std::size_t>(stages), static_cast<int>(row.layers / stages));
      ++plan.stages.front(), ++plan.stages.back();
    }
    const Workload workload{2048, row.batch, DType::kBf16};
    const Request request{model, workload, cluster, row.devices};
    const Ranked theirs = simulate_plan(request, plan);
    Space space = space_of(request);
    space.cp = {1}, space.zero = {0, 1};
    const Answer answer = search(request, space, {.ranked = 0, .most_simulated = 60});
    const double step = theirs.forecast.step().value, own = answer.plans[0].forecast.step().value;
    std::printf("%6s  %4d  %2d %2d %d %2d  %5.0f      %5.0f    %6.1f s                  %6.1f s   %s\n", row.billions,
                row.devices, row.tp, row.pp, row.virtual_stages, row.microbatch, row.teraflops,
                flops_of(row) / step / row.devices / 1e12, step, own, words(answer.plans[0].plan).c_str());
  }
}
