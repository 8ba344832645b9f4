#include <cstdio>
#include <iostream>

#include "cli/cli.h"
#include "sextant/cluster/cluster.h"

namespace sextant::cli {
namespace {

template <class T>
void print_preset(const Arguments& a, const std::vector<T>& presets, bool is_json) {
  std::vector<std::string> names;
  for (const T& p : presets) {
    names.push_back(p.name);
    if (p.name != a.words()[0]) continue;
    if (is_json && a.has("--json"))
      write_json(a, parse_json(p.text, p.name));
    else
      std::cout << p.text;
    return;
  }
  const std::string near = nearest(a.words()[0], names);
  throw InvalidInput(str("sextant presets: no preset ", printable(a.words()[0], 60),
                         near.empty() ? "" : "; did you mean " + near + "?", " ('sextant presets' lists them)"),
                     ExitCode::kUsage);
}

int list_clusters(const Arguments& a) {
  if (!a.words().empty()) return print_preset(a, cluster_presets(), false), 0;
  Value::Array all;
  for (const ClusterPreset& p : cluster_presets()) {
    const Cluster c = find_cluster(p.name);
    char line[160];
    std::snprintf(line, sizeof line, "%-16s %-18s %7.0f bf16 TFLOP/s  %9s  %6d devices at most\n", p.name.c_str(),
                  c.device.name.c_str(), c.device.bf16 / 1e12, human(c.device.memory).c_str(), c.most_devices());
    if (!a.has("--json")) std::cout << line;
    Value v;
    v.set("name", p.name);
    v.set("device", c.device.name);
    v.set("bf16_flops_per_s", c.device.bf16);
    v.set("memory_bytes", c.device.memory.value);
    v.set("most_devices", std::int64_t{c.most_devices()});
    all.push_back(std::move(v));
  }
  write_json(a, Value(std::move(all)));
  return 0;
}

int run_presets(const Arguments& a) {
  a.at_most_words(1);
  if (a.has("--clusters")) return list_clusters(a);
  if (!a.words().empty()) return print_preset(a, model_presets(), true), 0;
  Value::Array all;
  for (const Preset& p : model_presets()) {
    const ModelConfig c = find_model(p.name);
    const std::int64_t parameters = build_model(c, {}).num_parameters();
    char line[160];
    std::snprintf(line, sizeof line, "%-26s %-12s %4lld layers  width %6lld  %18s parameters%s\n", p.name.c_str(),
                  c.family.c_str(), static_cast<long long>(c.layers), static_cast<long long>(c.width),
                  with_commas(parameters).c_str(), c.not_trained().empty() ? "" : "  (not trained yet)");
    if (!a.has("--json")) std::cout << line;
    Value v;
    v.set("name", p.name);
    v.set("family", c.family);
    v.set("layers", c.layers);
    v.set("width", c.width);
    v.set("parameters", parameters);
    v.set("trains", c.not_trained().empty());
    all.push_back(std::move(v));
  }
  write_json(a, Value(std::move(all)));
  return 0;
}

}  // namespace

const Command presets = {"presets",
                         "[NAME]",
                         "Lists the models (or clusters) that are built in, or prints one.",
                         {{"--clusters", "", "clusters in place of models"}, {"--json", "[=FILE]", "the list as JSON"}},
                         "Example:\n  sextant presets llama3.1-8b\n  sextant presets --clusters h100-dgx\n",
                         run_presets};

}  // namespace sextant::cli
