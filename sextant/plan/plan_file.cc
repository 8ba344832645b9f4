#include "sextant/plan/plan_file.h"

#include <algorithm>
#include <filesystem>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/plan/pipeline_parallel.h"

namespace sextant {

std::string resolved(const std::string& path, const std::string& file) {
  if (path.empty() || path[0] == '/') return path;
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
}

namespace {

const std::vector<std::string> kSections = {"model", "cluster", "workload", "plan", "data", "optimizer", "train"};

void require_section(const std::string& section, const std::string& place) {
  if (std::find(kSections.begin(), kSections.end(), section) != kSections.end()) return;
  const std::string near = nearest(section, kSections);
  throw InvalidInput(str(place, ": unknown section",
                         near.empty() ? "; known: " + join(kSections, ", ") : "; did you mean " + near + "?"));
}

ModelConfig read_model(const Value& run, const std::string& file, std::string& model_file) {
  Fields f(run.find("model"), file, "[model]");
  const std::string name = f.text("config");
  const bool is_preset =
      std::any_of(model_presets().begin(), model_presets().end(), [&](const Preset& p) { return p.name == name; });
  const std::string path = is_preset ? name : resolved(name, file);
  std::error_code ignored;  // find_model says what is wrong with a path
  const std::string found = !is_preset && !std::filesystem::exists(path, ignored) ? name : path;
  ModelConfig model = find_model(found);
  if (!is_preset) model_file = std::filesystem::is_directory(found, ignored) ? found + "/config.json" : found;
  if (f.has("dropout")) {
    model.dropout = f.number("dropout", 0, 0.95);
  }
  f.known("dropout");
  f.known("attention_dropout");
  if (f.has("attention_dropout")) model.attention_dropout = f.number("attention_dropout", 0, 0);
  if (f.one_of_or("attention_core", "flash", {"flash", "unfused"}) == "unfused")
    model.attention_core = AttentionCore::kUnfused;
  if (f.one_of_or("products", "own", {"own", "fp8"}) == "fp8") model.product_type = ProductType::kFp8;
  model.stored_masks = f.one_of_or("masks", "drawn", {"drawn", "stored"}) == "stored";
  if (f.one_of_or("norms", "fused", {"fused", "unfused"}) == "unfused") model.norm_kernel = NormKernel::kSeveral;
  model.head.stored_logits = f.one_of_or("logits", "chunked", {"chunked", "stored"}) == "stored";
  model.head.label_smoothing = f.number_or("label_smoothing", 0, 0, 0.95);
  model.head.z_loss = f.number_or("z_loss", 0, 0, 1);
  if (f.has("expert_imbalance")) {
    if (model.mixture.experts == 0) f.fail("expert_imbalance", "the model has no experts; leave it out");
    model.mixture.imbalance = f.number("expert_imbalance", 1, 1e6);
  }
  f.known("expert_imbalance");
  model.mtp_depth = static_cast<int>(f.integer_or("mtp_depth", 0, 0, 1));
  f.finish();
  return model;
}

Value read_sections(const std::string& path, const std::vector<Override>& overrides) {
  Value run = parse_run_file(read_file(path, 1 << 20), path);
  for (const Member& m : std::get<Value::Object>(run.data))
    require_section(m.key,
                    str(printable(path), ":", m.value.line, ":", m.value.column, ": [", printable(m.key, 60), "]"));
  for (const Override& o : overrides) {
    Value* section = nullptr;
    for (Member& m : std::get<Value::Object>(run.data))
      if (m.key == o.section) section = &m.value;
    require_section(o.section, str("argument ", printable(o.section, 60), ".", printable(o.key, 60)));
    if (!section) section = &run.set(o.section, Value(Value::Object{}));
    Value value = parse_run_value(o.text, str("argument ", o.section, ".", o.key, "=", printable(o.text)));
    value.line = kFromArgument;
    for (const Override& other : overrides)
      if (&other != &o && other.section == o.section && other.key == o.key)
        throw InvalidInput(str("argument ", printable(o.section, 60), ".", printable(o.key, 60), ": stands twice"),
                           ExitCode::kUsage);
    section->set(o.key, std::move(value));
  }
  return run;
}

}  // namespace

Override parse_override(const std::string& argument) {
  const auto equals = argument.find('='), dot = argument.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 || dot + 1 == equals)
    throw InvalidInput(str("argument '", printable(argument), "': expected section.key=value, e.g. train.steps=200"),
                       ExitCode::kUsage);
  return {argument.substr(0, dot), argument.substr(dot + 1, equals - dot - 1), argument.substr(equals + 1)};
}

PlanFile read_plan_file(const std::string& path, const std::vector<Override>& overrides, int ranks) {
  PlanFile out;
  out.file = path;
  out.sections = read_sections(path, overrides);
  out.model = read_model(out.sections, path, out.model_file);
  out.workload = read_workload(out.sections, path);
  Fields cluster(out.sections.find("cluster"), path, "[cluster]");
  out.cluster = cluster.text_or("name", "");
  out.devices = static_cast<int>(cluster.integer_or("devices", 0, 1, 1 << 24));
  cluster.finish();
  // A file beside this one, or else where the command was started; a preset has no ending.
  std::error_code ignored;
  if (const std::string beside = resolved(out.cluster, path); std::filesystem::is_regular_file(beside, ignored))
    out.cluster = beside;
  const Value* plan = out.sections.find("plan");
  const bool says_dp = plan && plan->find("dp_shard");
  out.plan = read_plan(out.sections, path, out.workload, ranks > 0 || says_dp ? ranks : out.devices);
  if (out.devices > 0 && out.plan.num_ranks() != out.devices)
    cluster.fail("devices", str("is ", out.devices, ", but the plan needs ", out.plan.num_ranks(),
                                "; write devices = ", out.plan.num_ranks(), ", or leave dp_shard out"));
  if (is_file(out.plan.schedule)) out.plan.schedule = "csv:" + resolved(out.plan.schedule.substr(4), path);
  return out;
}

}  // namespace sextant
