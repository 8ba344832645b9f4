#include <cstdio>
#include <iostream>

#include "cli/cli.h"

namespace sextant::cli {
namespace {

int run_presets(const Arguments& a) {
  a.at_most_words(1);
  if (!a.words().empty()) {
    std::vector<std::string> names;
    for (const Preset& p : model_presets()) {
      names.push_back(p.name);
      if (p.name != a.words()[0]) continue;
      if (a.has("--json"))
        write_json(a, parse_json(p.text, p.name));
      else
        std::cout << p.text;
      return 0;
    }
    const std::string near = nearest(a.words()[0], names);
    throw InvalidInput(str("sextant presets: no preset ", printable(a.words()[0], 60),
                           near.empty() ? "" : "; did you mean " + near + "?", " ('sextant presets' lists them)"),
                       ExitCode::kUsage);
  }
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
                         "Lists the models that are built in, or prints one's config.",
                         {{"--json", "[=FILE]", "the list as JSON"}},
                         "Example:\n  sextant presets llama3.1-8b\n",
                         run_presets};

}  // namespace sextant::cli
