#include "sextant/runtime/train/run_config.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/plan/pipeline_parallel.h"

namespace sextant {
namespace {

const std::vector<std::string> kSections = {"model", "workload", "plan", "data", "optimizer", "train"};

void require_section(const std::string& section, const std::string& place) {
  if (std::find(kSections.begin(), kSections.end(), section) != kSections.end()) return;
  const std::string near = nearest(section, kSections);
  throw InvalidInput(str(place, ": unknown section",
                         near.empty() ? "; known: " + join(kSections, ", ") : "; did you mean " + near + "?"));
}

// A path of the run file stands relative to it, so that a run can be started from anywhere.
std::string resolved(const std::string& path, const std::string& file) {
  if (path.empty() || path[0] == '/') return path;
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
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
  model.stored_masks = f.one_of_or("masks", "drawn", {"drawn", "stored"}) == "stored";
  model.head.label_smoothing = f.number_or("label_smoothing", 0, 0, 0.95);
  model.head.z_loss = f.number_or("z_loss", 0, 0, 1);
  f.finish();
  return model;
}

}  // namespace

Override parse_override(const std::string& argument) {
  const auto equals = argument.find('='), dot = argument.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 || dot + 1 == equals)
    throw InvalidInput(str("argument '", printable(argument), "': expected section.key=value, e.g. train.steps=200"),
                       ExitCode::kUsage);
  return {argument.substr(0, dot), argument.substr(dot + 1, equals - dot - 1), argument.substr(equals + 1)};
}

RunConfig read_run(const std::string& path, const std::vector<Override>& overrides, int ranks, int ranks_here) {
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

  RunConfig c;
  c.file = path;
  c.model = read_model(run, path, c.model_file);
  c.settings = to_json(run) + to_json(c.model.source);
  c.workload = read_workload(run, path);
  c.plan = read_plan(run, path, c.workload, ranks);
  if (is_file(c.plan.schedule)) c.plan.schedule = "csv:" + resolved(c.plan.schedule.substr(4), path);
  c.optimizer = read_optimizer(run, path);

  Fields data(run.find("data"), path, "[data]");
  c.train_data = resolved(data.text("train"), path);
  c.tokenizer = resolved(data.text_or("tokenizer", ""), path);
  c.packing = data.one_of_or("documents", "joined", {"joined", "separate"}) == "separate" ? Packing::kSeparate
                                                                                          : Packing::kIgnore;
  data.finish();

  Fields train(run.find("train"), path, "[train]");
  c.steps = train.integer_or("steps", 100, 1, std::int64_t{1} << 40);
  c.stop_after = train.integer_or("stop_after", 0, 0, c.steps);
  c.seed = static_cast<std::uint64_t>(train.integer_or("seed", 1, 0));
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  c.threads = static_cast<int>(
      train.integer_or("threads", std::max(1, cores / (ranks_here > 0 ? ranks_here : c.plan.num_ranks())), 1, 1024));
  c.log_every = train.integer_or("log_every", std::max<std::int64_t>(1, c.steps / 50), 1);
  c.timeout = {train.number_or("timeout_s", 0, 0, 1e6)};
  c.metrics = resolved(train.text_or("metrics", ""), path);
  c.output = resolved(train.text_or("output", ""), path);
  c.shard = {train.integer_or("shard_bytes", c.shard.value, 1)};
  c.initial_weights = resolved(train.text_or("initial_weights", ""), path);
  train.finish();

  validate(c.plan, c.model, c.workload, path);
  return c;
}

}  // namespace sextant
