#include "sextant/plan/job.h"

namespace sextant {

Value job_of(const ModelConfig& m, const Workload& w, const Plan& p) {
  constexpr const char* kActivations[] = {"gelu", "swiglu", "geglu", "clamped_swiglu"};
  Value v{Value::Object{}};
  const auto set = [&](const char* key, std::int64_t n) { v.set(key, n); };
  set("layers", m.layers), set("width", m.width), set("heads", m.heads), set("kv_heads", m.kv_heads);
  set("head_width", m.head_width), set("ffn_width", m.ffn_width), set("vocabulary", m.vocabulary);
  v.set("activation", kActivations[static_cast<std::size_t>(m.ffn)]);
  set("experts", m.mixture.experts), set("expert_width", m.mixture.experts > 0 ? m.mixture.expert_width : 0);
  v.set("precision", std::string(name_of(w.dtype)));
  set("sequence", w.sequence), set("global_batch", w.global_batch);
  set("microbatch_size", p.microbatch_size), set("num_microbatches", p.num_microbatches);
  set("dp_replicate", p.dp_replicate), set("dp_shard", p.dp_shard), set("cp", p.cp), set("tp", p.tp), set("pp", p.pp);
  set("ep", p.ep), set("etp", p.etp), set("zero", p.zero);
  v.set("schedule", p.schedule);
  v.set("recompute", p.recompute.full ? "full" : join(p.recompute.ops, "+"));
  return v;
}

}  // namespace sextant
