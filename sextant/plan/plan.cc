#include "sextant/plan/plan.h"

#include <algorithm>
#include <numeric>

#include "sextant/base/errors.h"
#include "sextant/plan/context_parallel.h"
#include "sextant/plan/data_parallel.h"
#include "sextant/plan/expert_parallel.h"
#include "sextant/plan/pipeline_parallel.h"
#include "sextant/plan/sequence_parallel.h"
#include "sextant/plan/tensor_parallel.h"
#include "sextant/plan/violations.h"

namespace sextant {

MeshSizes mesh_of(const Plan& plan) {
  MeshSizes mesh;
  mesh[Axis::kDpReplicate] = plan.dp_replicate;
  mesh[Axis::kDpShard] = plan.dp_shard;
  mesh[Axis::kCp] = plan.cp;
  mesh[Axis::kTp] = plan.tp;
  mesh[Axis::kEdp] = plan.edp(), mesh[Axis::kEp] = plan.ep, mesh[Axis::kEtp] = plan.etp;
  return mesh;
}

Rules rules_of(const Plan& plan) {
  Rules rules;
  const auto add = [&](const std::vector<DimRule>& more) {
    rules.dims.insert(rules.dims.end(), more.begin(), more.end());
  };
  add(data_parallel_rules());
  add(context_parallel_rules());
  add(tensor_parallel_rules());
  add(expert_parallel_rules());
  if (plan.sequence_parallel) add(sequence_parallel_rules());
  rules.cp_kind = plan.cp_kind;
  if (plan.cp > 1) rules.cp_slices = plan.cp_slices;
  return rules;
}

Sizes sizes_of(const Plan& plan, const Workload& workload) {
  return {plan.microbatch_size * plan.data_ranks(), workload.sequence, workload.dtype};
}

namespace {

DType dtype_named(const std::string& precision) {
  return precision == "fp64" ? DType::kF64 : precision == "bf16" ? DType::kBf16 : DType::kF32;
}

std::string to_text(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  for (const int n : numbers) words.push_back(std::to_string(n));
  return "[" + join(words, ", ") + "]";
}

}  // namespace

std::vector<std::string> violations(const Plan& plan, const ModelConfig& model, const Workload& workload) {
  Violations out;
  out.must_divide("tp", plan.tp, "the attention heads", model.heads);
  if (model.kv_heads >= plan.tp)
    out.must_divide("tp", plan.tp, "the kv heads", model.kv_heads);
  else if (plan.tp % model.kv_heads != 0)
    out.add(str("tp = ", plan.tp, " is no multiple of the kv heads = ", model.kv_heads));
  if (model.has_dense_ffn()) out.must_divide("tp", plan.tp, "the ffn width", model.ffn_width);
  if (model.vocabulary < plan.tp)
    out.add(str("tp = ", plan.tp, " is more than the vocabulary = ", model.vocabulary, "; at most ", model.vocabulary));
  if (plan.cp > 1 && plan.cp_slices == Slices::kZigzag)
    out.must_divide("2 cp (zigzag)", 2 * plan.cp, "the sequence", workload.sequence);
  else
    out.must_divide("cp", plan.cp, "the sequence", workload.sequence);
  if (plan.cp_kind == CpKind::kUlysses)
    out.must_divide("cp (ulysses)", plan.cp, "the kv heads of one tp rank",
                    std::max<std::int64_t>(1, model.kv_heads / plan.tp));
  if (plan.cp_kind == CpKind::kRing && plan.cp > 1)
    out.add("cp_kind = \"ring\" is not lowered yet; use \"all_gather\" or \"ulysses\"");
  if (plan.sequence_parallel) {
    if (plan.tp == 1) out.add("sequence_parallel needs tp > 1; with tp = 1 there is nothing to split: remove it");
    out.must_divide("cp·tp", std::int64_t{plan.cp} * plan.tp, "the sequence", workload.sequence);
  }
  const std::vector<std::string> of_schedule = schedule_violations(plan);
  out.add(of_schedule);
  out.add(expert_violations(plan, model, workload.sequence));
  if (of_schedule.empty()) {
    const int num_stages = num_stages_of(plan), num_units = static_cast<int>(model.layers) + 2;
    const auto sum = std::accumulate(plan.stages.begin(), plan.stages.end(), std::int64_t{0});
    if (num_units < num_stages)
      out.add(str("the schedule has ", num_stages, " stages, and the model ", num_units, " units (", model.layers,
                  " layers, embedding, head): some would be empty; at most ", num_units, " stages"));
    else if (!plan.stages.empty() && (static_cast<int>(plan.stages.size()) != num_stages || sum != num_units))
      out.add(str("stages has ", plan.stages.size(), " entries with ", sum, " units, but the schedule has ", num_stages,
                  " stages, and the model ", num_units, " units (embedding, ", model.layers,
                  " layers, head); valid: stages = ", to_text(balanced_stages(num_units, num_stages))));
  }
  if (plan.reduce == GradientReduce::kMicrobatch && plan.zero < 2)
    out.add(str("reduce = \"microbatch\" with zero = ", plan.zero,
                ": whole gradients are kept anyway, and are reduced once; use reduce = \"step\" or zero = 2"));
  if (plan.recompute.layers >= 0 && !plan.recompute.any())
    out.add("recompute_layers without recompute; set recompute = \"full\" or a list of ops");
  if (workload.sequence > model.max_positions)
    out.add(str("sequence = ", workload.sequence, " is longer than the model's positions = ", model.max_positions,
                "; at most ", model.max_positions));
  const std::int64_t made = plan.microbatch_size * plan.num_microbatches * plan.data_ranks();
  if (made != workload.global_batch) {
    const std::int64_t below = workload.global_batch / made * made;
    out.add(str("global_batch = ", workload.global_batch, " is not microbatch_size ", plan.microbatch_size, " x ",
                plan.data_ranks(), " data-parallel ranks x num_microbatches ", plan.num_microbatches, " = ", made,
                "; nearest valid: global_batch = ", below > 0 ? str(below, " or ") : "", below + made));
  }
  return out.take();
}

void validate(const Plan& plan, const ModelConfig& model, const Workload& workload, const std::string& file) {
  const std::vector<std::string> found = violations(plan, model, workload);
  if (found.empty()) return;
  throw InvalidInput(str(printable(file), ": [plan] is not valid for this model:\n  - ", join(found, "\n  - ")));
}

Workload read_workload(const Value& run, const std::string& file) {
  Fields f(run.find("workload"), file, "[workload]");
  Workload w;
  w.sequence = f.integer("sequence", 1, 1 << 24);
  w.global_batch = f.integer("global_batch", 1, 1 << 30);
  w.dtype = dtype_named(f.one_of_or("precision", "fp32", {"fp32", "fp64", "bf16"}));
  f.finish();
  return w;
}

namespace {

Recompute read_recompute(Fields& f) {
  Recompute r;
  const Value* given = f.member("recompute");
  if (given && std::holds_alternative<Value::Array>(given->data)) {
    for (const std::string& name : f.texts("recompute")) {
      const auto& known = recompute_names();
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        const std::string near = nearest(name, known);
        f.fail("recompute", str("found ", printable(name, 40), near.empty() ? "" : "; did you mean " + near + "?", " (",
                                join(known, ", "), ")"));
      }
      r.ops.push_back(name);
    }
  } else {
    const std::string word = f.text_or("recompute", "none");
    if (word != "none" && word != "full")
      f.fail("recompute", str("found ", printable(word, 40), ", expected \"none\", \"full\" or a list of ops: [",
                              join(recompute_names(), ", "), "]"));
    r.full = word == "full";
  }
  r.layers = static_cast<int>(f.integer_or("recompute_layers", -1, 0, 1 << 20));
  return r;
}

}  // namespace

Plan read_plan(const Value& run, const std::string& file, const Workload& workload, int ranks) {
  Fields f(run.find("plan"), file, "[plan]");
  // A known field that is not offered is said by name, rather than guessed to be another one.
  if (f.has("rank_order")) f.fail("rank_order", "is not offered by this build yet; leave it out");
  Plan p;
  const auto degree = [&](const char* key) { return static_cast<int>(f.integer_or(key, 1, 1, 1 << 20)); };
  p.dp_replicate = degree("dp_replicate");
  p.cp = degree("cp");
  p.tp = degree("tp");
  p.pp = degree("pp");
  p.ep = degree("ep");
  p.etp = degree("etp");
  constexpr std::int64_t kMostRanks = 1 << 24, kMostMicrobatches = 1 << 14;
  const auto limit = [&](std::int64_t ranks_so_far, const char* key) {
    if (ranks_so_far > kMostRanks)
      f.fail(key, str("the plan would need ", ranks_so_far, " ranks; at most ", kMostRanks, " are planned with"));
    return static_cast<int>(ranks_so_far);
  };
  const int others = limit(
      std::int64_t{limit(std::int64_t{limit(std::int64_t{p.dp_replicate} * p.cp, "cp")} * p.tp, "tp")} * p.pp, "pp");
  if (f.has("dp_shard") || ranks == 0) {
    p.dp_shard = degree("dp_shard");
    limit(std::int64_t{others} * p.dp_shard, "dp_shard");
    if (ranks > 0 && p.num_ranks() != ranks)
      f.fail("dp_shard", str("the plan needs ", p.num_ranks(), " ranks (dp_replicate ", p.dp_replicate, " x dp_shard ",
                             p.dp_shard, " x cp ", p.cp, " x tp ", p.tp, " x pp ", p.pp, "), but --ranks says ", ranks,
                             "; use --ranks ", p.num_ranks(), " or leave dp_shard out"));
  } else {
    f.known("dp_shard");
    if (ranks % others != 0)
      f.fail("dp_shard", str("--ranks ", ranks, " is no multiple of dp_replicate x cp x tp x pp = ", others,
                             "; use --ranks ", std::max(1, ranks / others) * others));
    p.dp_shard = ranks / others;
  }
  p.sequence_parallel = f.boolean_or("sequence_parallel", false);
  const std::string cp_kind = f.one_of_or("cp_kind", "all_gather", {"all_gather", "ulysses", "ring"});
  p.cp_kind = cp_kind == "ring" ? CpKind::kRing : cp_kind == "ulysses" ? CpKind::kUlysses : CpKind::kAllGather;
  p.cp_slices = f.one_of_or("cp_slices", "contiguous", {"contiguous", "zigzag"}) == "zigzag" ? Slices::kZigzag
                                                                                             : Slices::kContiguous;
  p.w_inputs = f.one_of_or("w_inputs", "gather", {"gather", "keep"}) == "keep" ? WInputs::kKeep : WInputs::kGather;
  p.zero = static_cast<int>(f.integer_or("zero", 0, 0, 3));
  p.reduce = f.one_of_or("reduce", p.zero >= 2 ? "microbatch" : "step", {"step", "microbatch"}) == "step"
                 ? GradientReduce::kStep
                 : GradientReduce::kMicrobatch;
  p.gradient_dtype = dtype_named(f.one_of_or("gradient_dtype", "fp32", {"fp32", "bf16"}));
  p.live_units = static_cast<int>(f.integer_or("live_units", 2, 1, 1 << 20));
  p.bucket = {f.integer_or("bucket_bytes", p.zero == 3 ? 0 : 25'000'000, 0)};
  p.schedule = f.text_or("schedule", "1f1b");
  p.virtual_stages = static_cast<int>(f.integer_or("virtual_stages", 0, 0, 1 << 14));
  p.group = static_cast<int>(f.integer_or("group", 0, 0, 1 << 20));
  const auto list = [&](const char* key, std::vector<int>& into) {
    if (f.has(key))
      for (const std::int64_t n : f.integers(key, 1, 1 << 20)) into.push_back(static_cast<int>(n));
    f.known(key);
  };
  list("stages", p.stages);
  list("most_live", p.most_live);
  p.border =
      f.one_of_or("stage_border", "slice", {"slice", "whole"}) == "slice" ? StageBorder::kSlice : StageBorder::kWhole;
  p.recompute = read_recompute(f);
  // Left out, a rank takes its whole part of the batch at once, or as much as num_microbatches leaves.
  const std::int64_t per_rank = std::max<std::int64_t>(1, workload.global_batch / p.data_ranks());
  const std::int64_t asked = f.has("num_microbatches") ? f.integer("num_microbatches", 1, kMostMicrobatches)
                                                       : (f.known("num_microbatches"), 0);
  p.microbatch_size =
      f.integer_or("microbatch_size", asked ? std::max<std::int64_t>(1, per_rank / asked) : per_rank, 1, 1 << 24);
  p.num_microbatches = asked ? asked : std::max<std::int64_t>(1, per_rank / p.microbatch_size);
  if (p.num_microbatches > kMostMicrobatches)
    f.fail("microbatch_size",
           str("found ", p.microbatch_size, ", which makes ", p.num_microbatches, " microbatches a step; at most ",
               kMostMicrobatches, ": use a larger microbatch_size"));
  f.finish();
  return p;
}

}  // namespace sextant
