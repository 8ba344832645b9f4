#include "sextant/base/errors.h"
#include "sextant/plan/plan.h"

// A plan file's sections are read or refused, and violations are found or not, without an accident.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    const sextant::Value file = sextant::parse_run_file({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
    const sextant::Workload workload = sextant::read_workload(file, "fuzz.toml");
    const sextant::Plan plan = sextant::read_plan(file, "fuzz.toml", workload, 0);
    sextant::ModelConfig model;
    model.layers = 6, model.width = 64, model.heads = 8, model.kv_heads = 4, model.head_width = 8, model.ffn_width = 96,
    model.vocabulary = 300, model.max_positions = 4096;
    sextant::violations(plan, model, workload);
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
