#include "sextant/planner/published_run.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sextant/base/errors.h"
#include "sextant/plan/pipeline_parallel.h"
#include "sextant/planner/planner.h"

namespace sextant {
namespace {

constexpr double kAllocator = 1.07;

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// A row's object, read leniently: a null or missing number is -1, a missing text "".
class Entry {
 public:
  Entry(const Value& value, const std::string& file) : value_(value), file_(file) {
    if (!std::holds_alternative<Value::Object>(value.data))
      throw InvalidInput(str(printable(file), ":", value.line,
                             ": a row is an object {id, source, hardware, model, plan, "
                             "measured}"));
  }
  const Value* at(const char* group, const char* key) const {
    const Value* g = value_.find(group);
    return g ? g->find(key) : nullptr;
  }
  double number(const char* group, const char* key) const {
    const Value* v = at(group, key);
    if (!v) return -1;
    if (const auto* i = std::get_if<std::int64_t>(&v->data)) return static_cast<double>(*i);
    if (const auto* d = std::get_if<double>(&v->data)) return *d;
    return -1;
  }
  std::string text(const char* group, const char* key) const {
    const Value* v = at(group, key);
    const auto* s = v ? std::get_if<std::string>(&v->data) : nullptr;
    return s ? *s : "";
  }
  bool flag(const char* group, const char* key) const {
    const Value* v = at(group, key);
    const auto* b = v ? std::get_if<bool>(&v->data) : nullptr;
    return b && *b;
  }
  std::string own(const char* key) const {
    const Value* v = value_.find(key);
    const auto* s = v ? std::get_if<std::string>(&v->data) : nullptr;
    return s ? *s : "";
  }

 private:
  const Value& value_;
  const std::string& file_;
};

// What a device and its links are in a row, as a preset with what the row says of links.
std::string cluster_of(const Entry& row, Cluster& out) {
  static const std::map<std::string, std::string> kPresets = {
      {"A100-80GB", "a100-dgx"},     {"A100-40GB", "a100-dgx"}, {"H100-80GB", "h100-dgx"}, {"H200", "h200-dgx"},
      {"H800", "h800-dgx"},          {"B200", "b200-hgx"},      {"B300", "b300-hgx"},      {"MI355X", "mi355x"},
      {"GB200", "gb200-nvl72"},      {"GB300", "gb300-nvl72"},  {"MI300X", "mi300x"},      {"TPUv4", "tpu-v4"},
      {"TPUv5e", "tpu-v5e"},         {"TPUv5p", "tpu-v5p"},     {"TPUv6e", "tpu-v6e"},     {"TPU7x", "tpu-v7"},
      {"Ascend-910B", "ascend-910b"}};
  const std::string gpu = row.text("hardware", "gpu");
  const auto preset = kPresets.find(gpu);
  if (preset == kPresets.end()) return "no cluster file for " + (gpu.empty() ? "an unnamed device" : gpu);
  out = find_cluster(preset->second);
  if (gpu == "A100-40GB") {
    out.device.memory = {std::int64_t{40} << 30};
    out.device.bandwidth = 1.6e12;
  }
  const std::string links = row.text("hardware", "interconnect");
  if (out.levels.size() > 1 && !out.levels[1].is_torus()) {
    double& node = out.levels[1].bandwidth;
    if (has(links, "800 Gb/s per node")) node = 12.5e9;
    if (has(links, "400 Gb/s per node")) node = 6.25e9;
    if (has(links, "4x100Gb")) node = 6.25e9;
    for (std::size_t l = 2; l < out.levels.size(); ++l) out.levels[l].bandwidth = node;
  }
  return "";
}

// Sources whose runs are older than flash attention, or were made without it: scores and dropout masks are kept.
bool is_unfused(const std::string& id, const std::string& notes) {
  for (const char* old : {"vtrain", "korthikanti", "sc21", "megatron2", "mtnlg", "bigscience", "deepspeed"})
    if (id.rfind(old, 0) == 0) return true;
  return has(notes, "kernel: torch") || has(notes, "kernel: megatron");
}
// Sources whose gradients are reduced in one piece behind the last backward pass.
bool reduces_at_the_end(const std::string& id) {
  for (const char* old : {"vtrain", "korthikanti", "sc21", "megatron2", "mtnlg", "bigscience", "colm"})
    if (id.rfind(old, 0) == 0) return true;
  return false;
}

// Sources whose stacks hide collectives of layers behind weight gradients: Megatron from Korthikanti et al. 2022 on,
// and what is built on it. Forks of earlier versions, and those that say they do not, start and end them in place.
bool hides_in_layers(const std::string& id) {
  for (const char* stack : {"korthikanti", "megatronlm", "mbridge", "mcoremoe", "dgxc", "e2e", "tpurecipes", "maxtext"})
    if (id.rfind(stack, 0) == 0) return true;
  return false;
}

// Nothing launches its kernels but a host: no graph, no compiler.
bool is_eager(const Entry& row) {
  return row.text("hardware", "gpu").rfind("TPU", 0) != 0 && row.text("plan", "cuda_graph").empty();
}

// Hardware FLOPs of a step by SC21's formula (Narayanan et al. 2021, section 5.1), which counts recomputation.
double sc21_flops(const ModelConfig& m, const Workload& w) {
  const auto layers = static_cast<double>(m.layers), h = static_cast<double>(m.width),
             s = static_cast<double>(w.sequence), v = static_cast<double>(m.vocabulary);
  return 96 * static_cast<double>(w.global_batch) * s * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h));
}

int zero_of(const std::string& sharding) {
  if (has(sharding, "zero3") || has(sharding, "FULL_SHARD")) return 3;
  if (has(sharding, "zero2") || has(sharding, "SHARD_GRAD_OP")) return 2;
  if (has(sharding, "zero1") || has(sharding, "distributed")) return 1;
  if (has(sharding, "fsdp")) return 3;
  return 0;
}

}  // namespace

namespace {

// A member of an object within the model, e.g. of "moe"; 0 if it has none.
std::int64_t within(const Value* object, const char* key) {
  const Value* v = object ? object->find(key) : nullptr;
  const auto* i = v ? std::get_if<std::int64_t>(&v->data) : nullptr;
  return i ? *i : 0;
}

bool is_object(const Value* v) { return v && std::holds_alternative<Value::Object>(v->data); }

// Experts, latent attention, and layers that slide.
void read_parts(const Entry& row, ModelConfig& m) {
  if (const Value* moe = row.at("model", "moe"); is_object(moe)) {
    m.family = "qwen3_moe";
    m.mixture.experts = within(moe, "experts"), m.mixture.expert_width = within(moe, "expert_ffn");
    m.mixture.router.top_k = std::max<std::int64_t>(1, within(moe, "top_k"));
    m.mixture.shared_width = within(moe, "shared_ffn");
    m.mixture.first_dense = within(moe, "dense_layers");
    m.mixture.period = std::max<std::int64_t>(1, within(moe, "moe_every"));
  }
  if (const Value* mla = row.at("model", "mla"); is_object(mla)) {
    m.latent = {within(mla, "kv_lora"), within(mla, "q_lora"), within(mla, "qk_nope"), within(mla, "qk_rope"),
                within(mla, "v_dim")};
    m.kv_heads = m.heads, m.head_width = m.latent.key_width + m.latent.rope_width;
  }
  m.mtp_depth = row.number("model", "mtp_layers") > 0 ? 1 : 0;
  if (const double window = row.number("model", "sliding_window"); window > 0) {
    m.attention.window = static_cast<std::int64_t>(window);
    const auto every = static_cast<std::int64_t>(std::max(1.0, row.number("model", "sliding_every")));
    for (std::int64_t layer = 0; layer < m.layers; ++layer) m.slides.push_back(layer % every == 0);
  }
}

ModelConfig model_of(const Entry& row, const std::string& id, const std::string& notes) {
  ModelConfig m;
  const auto size = [&](const char* key) { return static_cast<std::int64_t>(row.number("model", key)); };
  const bool gated = row.flag("model", "gated_mlp");
  m.layers = size("layers"), m.width = size("hidden"), m.heads = size("heads"), m.ffn_width = size("ffn_hidden");
  m.kv_heads = size("kv_heads") > 0 ? size("kv_heads") : m.heads;
  m.head_width = size("head_dim") > 0 ? size("head_dim") : m.width / m.heads;
  m.vocabulary = size("vocab") > 0 ? size("vocab") : 51200;
  m.max_positions = size("seq_len");
  m.family = "llama";
  if (!gated) m.ffn = Ffn::kGelu;
  if (!gated && m.kv_heads == m.heads) {
    m.family = "gpt2";
    m.positions = Positions::kLearned, m.norm = NormKind::kLayer;
    m.qkv_bias = m.attention_out_bias = m.ffn_bias = m.tied_head = true;
  }
  if (has(row.text("plan", "precision"), "FP8")) m.product_type = ProductType::kFp8;
  if (is_unfused(id, notes)) {
    m.attention_core = AttentionCore::kUnfused, m.stored_masks = true;
    if (!gated && !has(id, "bigscience")) m.dropout = m.attention_dropout = 0.1;
  }
  // PyTorch has no kernel for RMS norms of its own; these sheets say which runs had one.
  if (gated && id.rfind("colm", 0) == 0 && !has(notes, "RMS kernel")) m.norm_kernel = NormKernel::kSeveral;
  m.head.stored_logits = true;  // all of these frameworks keep them
  read_parts(row, m);
  return m;
}

// Names of ops that a selective recomputation of Megatron's words is.
std::vector<std::string> recomputed(const std::string& words, const ModelConfig& m) {
  std::vector<std::string> out;
  if (has(words, "layernorm")) out.push_back("norm");
  if (has(words, "moe_act") || has(words, "mlp")) out.push_back("act");
  if (has(words, "mla_up_proj")) out.push_back("mla_up");
  // Its core attention, which a fused kernel does not keep anyway.
  if (out.empty()) out.push_back(m.attention_core == AttentionCore::kUnfused ? "attention" : "norm");
  return out;
}

Plan plan_of_row(const Entry& row, const std::string& id, const ModelConfig& m) {
  Plan p;
  const auto degree = [&](const char* key) { return static_cast<int>(row.number("plan", key)); };
  p.dp_shard = degree("dp"), p.tp = degree("tp"), p.pp = degree("pp"), p.cp = degree("cp");
  if (p.cp > 1) p.cp_slices = Slices::kZigzag;
  p.sequence_parallel = row.flag("plan", "sp") && p.tp > 1;
  if (m.mixture.experts > 0) {
    p.ep = std::max(1, degree("ep")), p.etp = degree("etp");
    // Not stated: experts are split as all else is, unless ep takes tp's ranks too.
    if (p.etp < 1) p.etp = p.dp_shard * p.cp % p.ep == 0 ? p.tp : 1;
  }
  p.zero = p.dp_shard * p.cp > 1 ? zero_of(row.text("plan", "sharding")) : 0;
  p.reduce = p.zero >= 2 ? GradientReduce::kMicrobatch : GradientReduce::kStep;
  p.bucket = p.zero == 3 || reduces_at_the_end(id) ? Bytes{0} : Bytes{100'000'000};
  p.virtual_stages = degree("vpp") > 1 ? degree("vpp") : 0;
  p.schedule = p.virtual_stages > 1 ? "interleaved" : "1f1b";
  const std::string schedule = row.text("plan", "schedule");
  if (has(schedule, "ZB-H1")) p.schedule = "zb-h1";
  if (has(schedule, "ZB-H2")) p.schedule = "zb-h2";
  if (has(schedule, "zbv")) p.schedule = "zb-v";
  const std::string recompute = row.text("plan", "recompute");
  if (recompute == "full")
    p.recompute.full = true;
  else if (has(recompute, "selective"))
    p.recompute.ops = recomputed(recompute, m);
  p.microbatch_size = static_cast<std::int64_t>(row.number("plan", "mbs"));
  // Layers are dealt out evenly; embedding and head come on top of the first and the last stage, or count as layers
  // where that makes them divide (a balanced plan's own). A head with a layer of its own is laid out by what it takes:
  // its products are about half a layer.
  const int stages = p.pp * std::max(1, p.virtual_stages);
  if (p.pp > 1 && m.mtp_depth > 0 && m.layers + 2 >= stages) {
    std::vector<double> times(static_cast<std::size_t>(m.layers) + 2, 1);
    times.front() = 0, times.back() = 1.5;
    p.stages = least_stages(times, stages);
  } else if (p.pp > 1 && m.layers % stages == 0 && p.schedule != "zb-v") {
    p.stages.assign(static_cast<std::size_t>(stages), static_cast<int>(m.layers / stages));
    ++p.stages.front(), ++p.stages.back();
  }
  return p;
}

// Why a row cannot be priced, by what it does not say or by what is not offered; "" if it can.
std::string why_not(const Entry& row, const std::string& id, const std::string& notes) {
  for (const char* key : {"dp", "tp", "pp", "cp", "mbs", "gbs"})
    if (row.number("plan", key) < 1) return str(key, " is not stated");
  const std::string precision = row.text("plan", "precision"), schedule = row.text("plan", "schedule");
  if (!(has(precision, "FP8") || has(precision, "BF16") || has(precision, "FP16")))
    return "precision " + precision + " is not priced";
  if (has(id, "lora") || has(notes, "LoRA")) return "LoRA trains a part of the model only";
  if (const Value* moe = row.at("model", "moe"); is_object(moe))
    for (const char* key : {"experts", "top_k", "expert_ffn"})
      if (within(moe, key) < 1) return str("the experts' ", key, " is not stated");
  for (const char* key : {"layers", "hidden", "heads", "ffn_hidden", "seq_len"})
    if (row.number("model", key) < 1) return str("the model's ", key, " is not stated");
  if (has(schedule, "v-half") || has(schedule, "v-min")) return "schedule " + schedule + " is not offered";
  return "";
}

// What was measured; of SC21's table only FLOP/s are.
void read_measured(const Entry& row, PublishedRun& run) {
  const Workload& w = run.workload;
  const double ranks = run.plan.num_ranks(),
               tokens = static_cast<double>(w.global_batch) * static_cast<double>(w.sequence);
  const auto measured = [&](const char* key) { return row.number("measured", key); };
  if (measured("iter_time_s") > 0)
    run.measured_s = measured("iter_time_s");
  else if (measured("tokens_per_s_per_gpu") > 0)
    run.measured_s = tokens / (measured("tokens_per_s_per_gpu") * ranks);
  else if (measured("tflops_per_gpu") > 0 && run.id.rfind("sc21-table1", 0) == 0)
    run.measured_s = sc21_flops(run.model, w) / (measured("tflops_per_gpu") * 1e12 * ranks);
  run.out_of_memory = row.flag("measured", "oom");
  run.is_memory_trial = run.out_of_memory || (run.id.rfind("colm", 0) == 0 && run.measured_s > 0);
  if (measured("peak_alloc_gib_max") > 0)
    run.measured_bytes = measured("peak_alloc_gib_max") * (1 << 30);
  else if (measured("memory_gb") > 0)
    run.measured_bytes = measured("memory_gb") * 1e9;
}

}  // namespace

RunRow read_published_run(const Value& value, const std::string& file) {
  const Entry row(value, file);
  PublishedRun run;
  run.id = row.own("id"), run.source = row.own("source");
  const auto refuse = [&](const std::string& why) { return RunRow(NotPriced{run.id, run.source, why}); };
  const std::string notes = row.own("notes");
  if (const std::string why = why_not(row, run.id, notes); !why.empty()) return refuse(why);
  if (const std::string why = cluster_of(row, run.cluster); !why.empty()) return refuse(why);
  run.hides_experts = row.flag("plan", "moe_a2a_overlap");
  if (is_eager(row)) run.cluster.device.host = kEagerHost;
  run.cluster.device.overlaps_layers = hides_in_layers(run.id);
  run.model = model_of(row, run.id, notes);
  if (run.model.product_type == ProductType::kFp8 && run.cluster.device.fp8 == 0)
    return refuse(run.cluster.device.name + " has no fp8");
  Plan& p = run.plan;
  p = plan_of_row(row, run.id, run.model);
  // Some trainers let the batch be no multiple of what a microbatch of all ranks takes: the nearest number of them.
  const std::int64_t of_all = p.microbatch_size * p.data_ranks(),
                     batch = static_cast<std::int64_t>(row.number("plan", "gbs"));
  p.num_microbatches = std::max<std::int64_t>(1, (batch + of_all / 2) / of_all);
  run.workload.sequence = run.model.max_positions;
  run.workload.global_batch = p.num_microbatches * of_all;
  run.workload.dtype = DType::kBf16;
  const double devices = row.number("hardware", "gpus");
  if (devices > 0 && p.num_ranks() != static_cast<int>(devices))
    return refuse(str("the degrees make ", p.num_ranks(), " ranks, the row says ", devices, " devices"));
  if (p.num_ranks() > run.cluster.most_devices()) return refuse("more devices than the cluster file has");
  if (const auto broken = violations(p, run.model, run.workload); !broken.empty())
    return refuse("not a plan of ours: " + broken[0]);
  read_measured(row, run);
  if (run.measured_s == 0 && run.measured_bytes == 0 && !run.out_of_memory)
    return refuse("neither a time, nor a memory, nor an out-of-memory trial");
  return run;
}

PricedRun price(const RunRow& row) {
  PricedRun out;
  if (const auto* no = std::get_if<NotPriced>(&row)) {
    out.id = no->id, out.source = no->source, out.reason = no->reason;
    return out;
  }
  const auto& run = std::get<PublishedRun>(row);
  out.id = run.id, out.source = run.source;
  out.measured_s = run.measured_s, out.measured_bytes = run.measured_bytes;
  out.out_of_memory = run.out_of_memory, out.is_memory_trial = run.is_memory_trial;
  const ModelConfig& m = run.model;
  out.sweep = str(run.source.substr(0, 30), "|", m.layers, "x", m.width, "|", run.plan.num_ranks(), "|",
                  run.workload.global_batch, "|", run.workload.sequence);
  try {
    const Program program = build_program(build_model(run.model, sizes_of(run.plan, run.workload)), run.plan);
    Prices prices = cluster_prices(program, run.cluster);
    if (run.hides_experts) hide_experts(prices);
    const Forecast f = forecast(program, run.cluster, prices);
    out.priced = true;
    out.predicted_s = f.step().value;
    out.predicted_bytes = static_cast<double>((f.peak - run.cluster.device.reserve).value);
    // A caching allocator keeps more than its tensors (cost model notes: 1.03 to 1.07 of them).
    out.fits = out.predicted_bytes * kAllocator + static_cast<double>(run.cluster.device.reserve.value) <=
               static_cast<double>(run.cluster.device.memory.value);
  } catch (const InvalidInput& e) {
    out.reason = e.what();
  }
  return out;
}

Accuracy accuracy_of(const std::vector<PricedRun>& runs) {
  Accuracy a;
  std::vector<double> errors, regrets;
  std::map<std::string, std::vector<const PricedRun*>> sweeps;
  double right = 0;
  for (const PricedRun& r : runs) {
    ++a.rows;
    if (!r.priced) continue;
    ++a.priced;
    if (r.measured_s > 0) {
      const double error = r.predicted_s / r.measured_s - 1;
      errors.push_back(std::abs(error));
      a.mape += std::abs(error), a.bias += error;
      sweeps[r.sweep].push_back(&r);
    }
    if (r.measured_bytes > 0) ++a.memories, a.memory_mean += std::abs(r.predicted_bytes / r.measured_bytes - 1);
    if (r.is_memory_trial) ++a.trials, right += r.out_of_memory != r.fits;
  }
  a.timed = static_cast<int>(errors.size());
  if (!errors.empty()) {
    a.mape /= a.timed, a.bias /= a.timed;
    std::sort(errors.begin(), errors.end());
    a.median_abs = errors[errors.size() / 2];
  }
  if (a.memories > 0) a.memory_mean /= a.memories;
  if (a.trials > 0) a.oom_accuracy = right / a.trials;
  for (const auto& [sweep, members] : sweeps) {
    if (members.size() < 3) continue;
    const auto by_prediction = [](const PricedRun* x, const PricedRun* y) { return x->predicted_s < y->predicted_s; };
    const auto by_measure = [](const PricedRun* x, const PricedRun* y) { return x->measured_s < y->measured_s; };
    const PricedRun* chosen = *std::min_element(members.begin(), members.end(), by_prediction);
    const PricedRun* best = *std::min_element(members.begin(), members.end(), by_measure);
    regrets.push_back(chosen->measured_s / best->measured_s - 1);
  }
  a.sweeps = static_cast<int>(regrets.size());
  if (!regrets.empty()) {
    std::sort(regrets.begin(), regrets.end());
    a.regret_median = regrets[regrets.size() / 2], a.regret_worst = regrets.back();
  }
  return a;
}

}  // namespace sextant
