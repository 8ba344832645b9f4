#include "cli/forecast_text.h"

#include <cstdio>

#include "sextant/base/errors.h"

namespace sextant::cli {
namespace {

std::string recompute_text(const Recompute& r, const char* full, const char* none) {
  std::string text = r.full ? full : r.ops.empty() ? none : join(r.ops, "+");
  if (r.any() && r.layers >= 0) text += str(" in ", r.layers, " layers a stage");
  return text;
}

}  // namespace

std::string numbers(const std::vector<int>& list) {
  std::vector<std::string> words;
  for (const int n : list) words.push_back(std::to_string(n));
  return join(words, ", ");
}

std::string layout_of(const std::vector<int>& stages) {
  std::string out;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const bool first = s == 0, last = s + 1 == stages.size();
    out += (first ? "E" : "|") +
           std::string(static_cast<std::size_t>(stages[s] - (first ? 1 : 0) - (last ? 1 : 0)), 't') + (last ? "L" : "");
  }
  return out;
}

std::string percent(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * fraction);
  return text;
}

std::string words_of(const Plan& p) {
  std::string out;
  const auto degree = [&](const char* name, int n) {
    if (n > 1) out += str(out.empty() ? "" : " ", name, " ", n);
  };
  degree("replicas", p.dp_replicate);
  degree("dp", p.dp_shard);
  degree("cp", p.cp);
  degree("tp", p.tp);
  if (p.sequence_parallel) out += " sp";
  degree("ep", p.ep);
  degree("etp", p.etp);
  degree("pp", p.pp);
  if (p.pp > 1) out += " " + p.schedule;
  if (p.pp > 1 && p.virtual_stages > 1) out += str(" V ", p.virtual_stages);
  if (out.empty()) out = "one rank";
  out += str(", zero ", p.zero, ", ", p.num_microbatches, " x ", p.microbatch_size,
             p.num_microbatches * p.microbatch_size == 1 ? " sequence" : " sequences");
  if (p.recompute.any()) out += ", recompute " + recompute_text(p.recompute, "full", "");
  return out;
}

std::string plan_file_text(const std::string& name, const ModelConfig& m, const std::string& cluster, int devices,
                           const Workload& w, const Plan& p) {
  std::string out =
      str("[model]\nconfig = \"", name, "\"", m.product_type == ProductType::kFp8 ? "\nproducts = \"fp8\"" : "",
          m.mtp_depth > 0 ? "\nmtp_depth = 1" : "", "\n\n[cluster]\nname = \"", cluster, "\"\ndevices = ", devices,
          "\n\n[workload]\nsequence = ", w.sequence, "\nglobal_batch = ", w.global_batch, "\nprecision = \"",
          w.dtype == DType::kBf16  ? "bf16"
          : w.dtype == DType::kF64 ? "fp64"
                                   : "fp32",
          "\"\n\n[plan]\ndp_shard = ", p.dp_shard);
  const auto line = [&](const char* key, const auto& value) { out += str("\n", key, " = ", value); };
  if (p.dp_replicate > 1) line("dp_replicate", p.dp_replicate);
  if (p.cp > 1) line("cp", p.cp), line("cp_slices", p.cp_slices == Slices::kZigzag ? "\"zigzag\"" : "\"contiguous\"");
  if (p.tp > 1) line("tp", p.tp);
  if (p.sequence_parallel) line("sequence_parallel", "true");
  if (p.ep > 1) line("ep", p.ep);
  if (p.etp > 1) line("etp", p.etp);
  line("zero", p.zero);
  if (p.zero >= 2) line("reduce", p.reduce == GradientReduce::kStep ? "\"step\"" : "\"microbatch\"");
  if (p.pp > 1) {
    line("pp", p.pp);
    line("schedule", "\"" + p.schedule + "\"");
    if (p.virtual_stages > 0) line("virtual_stages", p.virtual_stages);
    if (!p.most_live.empty()) line("most_live", "[" + numbers(p.most_live) + "]");
    if (!p.stages.empty()) line("stages", "[" + numbers(p.stages) + "]");
  }
  if (w.dtype == DType::kBf16) line("gradient_dtype", p.gradient_dtype == DType::kF32 ? "\"fp32\"" : "\"bf16\"");
  line("bucket_bytes", p.bucket.value);
  if (p.recompute.full) line("recompute", "\"full\"");
  if (!p.recompute.ops.empty()) line("recompute", "[\"" + join(p.recompute.ops, "\", \"") + "\"]");
  if (p.recompute.any() && p.recompute.layers >= 0) line("recompute_layers", p.recompute.layers);
  line("microbatch_size", p.microbatch_size);
  line("num_microbatches", p.num_microbatches);
  return out + "\n";
}

void print_forecast(std::ostream& out, const Forecast& f, const Workload& w, const Plan& plan, const Cluster& cluster) {
  const Breakdown& t = f.time;
  const double step = t.makespan.value;
  const double tokens = static_cast<double>(w.global_batch) * static_cast<double>(w.sequence) / step;
  out << "  step time    " << human(t.makespan) << ", " << human(tokens, "tokens/s") << ", "
      << human(tokens / plan.num_ranks(), "tokens/s") << " a device, MFU " << percent(f.mfu) << "\n";
  const auto line = [&](const char* what, Seconds time) {
    char text[96];
    if (time.value / step < 5e-4) return;
    std::snprintf(text, sizeof text, "    %-28s %10s  %6s\n", what, human(time).c_str(),
                  percent(time / t.makespan).c_str());
    out << text;
  };
  line("compute", t.compute);
  line("tp, not hidden", t.tp);
  line("cp, not hidden", t.cp);
  line("ep, not hidden", t.ep);
  line("dp, not hidden", t.dp);
  line("stage borders, not hidden", t.pipeline);
  line("bubble", t.bubble);
  line("imbalance of stages", t.imbalance);
  line("optimizer", t.optimizer);
  const Bytes room = cluster.device.memory;
  out << "  memory       " << human(f.peak) << " of " << human(room) << (f.peak > room ? ": DOES NOT FIT" : "")
      << (plan.pp > 1 ? str(" (pp ", f.worst, ")") : "") << ", in " << f.peak_where << "\n";
  for (int tag = 0; tag < kNumMemoryTags; ++tag) {
    const Bytes b = f.at_peak[static_cast<std::size_t>(tag)];
    if (b.value * 2000 < f.peak.value) continue;
    char text[96];
    std::snprintf(text, sizeof text, "    %-28s %10s\n", std::string(name_of(static_cast<MemoryTag>(tag))).c_str(),
                  human(b).c_str());
    out << text;
  }
  char text[96];
  std::snprintf(text, sizeof text, "    %-28s %10s\n", "reserved by the device", human(cluster.device.reserve).c_str());
  out << text;
}

namespace {

void set_plan(Value& v, const Plan& p) {
  v.set("dp", std::int64_t{p.data_ranks()});
  v.set("dp_replicate", std::int64_t{p.dp_replicate});
  v.set("dp_shard", std::int64_t{p.dp_shard});
  v.set("cp", std::int64_t{p.cp});
  v.set("tp", std::int64_t{p.tp});
  v.set("pp", std::int64_t{p.pp});
  v.set("ep", std::int64_t{p.ep});
  v.set("etp", std::int64_t{p.etp});
  v.set("sequence_parallel", p.sequence_parallel);
  v.set("zero", std::int64_t{p.zero});
  v.set("schedule", p.schedule);
  v.set("virtual_stages", std::int64_t{p.virtual_stages});
  v.set("microbatch_size", p.microbatch_size);
  v.set("num_microbatches", p.num_microbatches);
  v.set("recompute", recompute_text(p.recompute, "full", "none"));
}

}  // namespace

Value to_value(const Forecast& f, const Workload& w, const Plan& plan) {
  const Breakdown& t = f.time;
  Value v;
  set_plan(v, plan);
  v.set("step_time_s", t.makespan.value);
  v.set("compute_s", (t.compute + t.imbalance + t.optimizer).value);
  Value exposed{Value::Object{}};
  exposed.set("tp", t.tp.value);
  exposed.set("cp", t.cp.value);
  exposed.set("ep", t.ep.value);
  exposed.set("dp", t.dp.value);
  exposed.set("pp", t.pipeline.value);
  v.set("exposed_s", std::move(exposed));
  v.set("bubble_s", t.bubble.value);
  v.set("imbalance_s", t.imbalance.value);
  v.set("optimizer_s", t.optimizer.value);
  v.set("peak_bytes", f.peak.value);
  Value tags{Value::Object{}};
  for (int tag = 0; tag < kNumMemoryTags; ++tag)
    tags.set(name_of(static_cast<MemoryTag>(tag)), f.at_peak[static_cast<std::size_t>(tag)].value);
  v.set("peak_by_tag_bytes", std::move(tags));
  v.set("mfu", f.mfu);
  v.set("tokens_per_s", static_cast<double>(w.global_batch) * static_cast<double>(w.sequence) / t.makespan.value);
  return v;
}

}  // namespace sextant::cli
