#include "sextant/runtime/train/verify.h"

#include <cstdio>
#include <iostream>

#include "cli/cli.h"

namespace sextant::cli {
namespace {

int run_verify(const Arguments& a) {
  std::ostream& out = a.value("--json") == "" ? std::cerr : std::cout;
  const RunConfig config =
      read_run(a.file("a run file"), a.overrides(), static_cast<int>(a.integer("--ranks", 0, 1, 1 << 20)));
  require_json(a, files_of(config));
  const Verdict v = sextant::verify(config.model, config.plan, config.workload,
                                    a.has("--whole") ? ProofModel::kWhole : ProofModel::kSmall);
  const bool holds = v.holds(kProofTolerance);
  out << printable(config.file) << ": " << (holds ? "proved" : "NOT PROVED") << " on " << v.ranks
      << (v.ranks == 1 ? " rank" : " ranks") << " against one, in float64, three SGD steps\n";
  if (!v.scaled.empty()) out << "  scaled      " << v.scaled << "\n";
  const auto line = [&](const char* what, double error, const std::string& where) {
    char text[64];
    std::snprintf(text, sizeof text, "  %-11s %.1e", what, error);
    out << text << (where.empty() ? "" : "  (worst: " + where + ")") << "\n";
  };
  line("loss", v.loss_error, "");
  line("gradients", v.gradient.error, v.gradient.tensor);
  line("grad norm", v.norm_error, "");
  line("weights", v.weight.error, v.weight.tensor);
  const auto yes = [](bool b) { return b ? "yes" : "NO"; };
  out << "  bytes received equal the promise: " << yes(v.bytes_match) << "; peak memory: " << yes(v.peak_matches)
      << "; all ranks have the same bits: " << yes(v.ranks_agree) << "\n";
  Value json;
  json.set("proved", holds);
  json.set("ranks", v.ranks);
  json.set("tolerance", kProofTolerance);
  json.set("worst_relative_error", v.worst_error());
  json.set("worst_tensor", v.worst_tensor());
  json.set("loss_error", v.loss_error);
  json.set("gradient_error", v.gradient.error);
  json.set("grad_norm_error", v.norm_error);
  json.set("weight_error", v.weight.error);
  json.set("bytes_match", v.bytes_match);
  json.set("peak_memory_match", v.peak_matches);
  json.set("ranks_agree", v.ranks_agree);
  json.set("scaled", v.scaled);
  write_json(a, json);
  return holds ? 0 : 1;
}

}  // namespace

const Command verify = {
    "verify",
    "RUN.toml [--ranks N] [section.key=value ...]",
    "Proves that a plan computes what one rank computes.",
    {{"--ranks", "N", "fills plan.dp_shard if the file leaves it out"},
     {"--whole", "", "the model as it is, instead of one of the same family with small widths"},
     {"--json", "[=FILE]", "the verdict as JSON"}},
    "Ranks are threads; labels are masked unevenly, dropout is on if the model has it. Compared are losses, every\n"
    "gradient, the gradient norm, the weights after three SGD steps (1e-10 relative), and exactly: bytes received and\n"
    "the peak of memory on every rank. Exit code 0 if all hold, 1 if not.\n\n"
    "Example:\n  sextant verify examples/kjv/run.toml plan.pp=2 plan.tp=2 plan.dp_shard=2 plan.zero=3 "
    "plan.num_microbatches=4\n",
    run_verify};

}  // namespace sextant::cli
