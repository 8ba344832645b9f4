// Writes what the referee compares: config, weights, tokens, and our loss and gradients, in float32.
// Usage: referee_dump FAMILY FOLDER
#include <filesystem>
#include <iostream>

#include "sextant/base/errors.h"
#include "sextant/base/random.h"
#include "sextant/runtime/checkpoint/weights.h"
#include "sextant/runtime/train/proof.h"
#include "tests/support/tiny.h"

namespace sextant {
namespace {

ModelConfig config_of(const std::string& family) {
  if (family == "gpt2") return tiny_gpt2(3, 0);
  if (family == "qwen3") {
    ModelConfig c = tiny_qwen3(2);
    c.dropout = 0;
    return c;
  }
  if (family != "llama" && family != "qwen2") return tiny_of(family);
  ModelConfig c = tiny_llama(3, 0);
  if (family == "qwen2") c.family = family, c.qkv_bias = c.tied_head = true;
  return c;
}

void dump(const std::string& family, const std::string& folder) {
  for (const char* part : {"/weights", "/gradients"}) std::filesystem::create_directories(folder + part);
  const ModelConfig model_config = config_of(family);
  RunConfig run;
  run.model = model_config;
  run.workload = {16, 4, DType::kF32};
  run.plan.microbatch_size = 2, run.plan.num_microbatches = 2;
  const Model model = build_model(run.model, sizes_of(run.plan, run.workload));
  const Program program = build_program(model, run.plan);
  const KernelTable kernels = builtin_kernels();
  run_threads(1, [&](Communicator& world) {
    Executor executor(program, kernels, world, {.seed = 3, .optimizer = {.kind = OptimizerKind::kSgd}});
    executor.initialise();
    for (const Parameter* p : model.parameters())  // norms and biases away from 1 and 0
      if (!p->is_matrix)
        for (std::size_t i = 0; float& x : executor.parameter<float>(p->spec.name))
          x += 0.2F * static_cast<float>(RandomStream(8, Purpose::kTest, hash_name(p->spec.name)).normal(i++));
    fill_step(executor, run, uneven_samples(37), 0, 0);
    save_weights(folder + "/weights", model, [&](const std::string& name) { return executor.parameter_bytes(name); });
    const StepResult result = executor.step(-1);
    save_weights(folder + "/gradients", model,
                 [&](const std::string& name) { return std::as_writable_bytes(executor.gradient<float>(name)); });
    Value v;
    v.set("family", model_config.family);
    v.set("layers", model_config.layers);
    v.set("heads", model_config.heads);
    v.set("kv_heads", model_config.kv_heads);
    v.set("head_width", model_config.head_width);
    v.set("epsilon", model_config.norm_epsilon);
    v.set("theta", model_config.rope_theta);
    v.set("tied", model_config.tied_head);
    v.set("rotary_width", model_config.rotary_width);
    v.set("parallel", model_config.parallel_branches);
    v.set("scale", model_config.attention.scale);
    v.set("softcap", model_config.attention.softcap);
    v.set("head_softcap", model_config.head.softcap);
    v.set("embedding_scale", model_config.embedding_scale);
    v.set("window", model_config.attention.window);
    Value::Array slides;
    for (const bool s : model_config.slides) slides.emplace_back(s);
    v.set("slides", std::move(slides));
    v.set("loss", result.loss);
    for (const char* name : {"ids", "labels"}) {
      Value::Array all;
      for (int m = 0; m < 2; ++m)
        for (const std::int32_t t : executor.data<std::int32_t>(name, m)) all.emplace_back(std::int64_t{t});
      v.set(name, std::move(all));
    }
    write_file(folder + "/case.json", to_json(v));
  });
}

}  // namespace
}  // namespace sextant

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: referee_dump FAMILY FOLDER\n", 2;
  sextant::dump(argv[1], argv[2]);
}
