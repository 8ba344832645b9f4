#pragma once
// How a model is split over ranks.
#include <algorithm>
#include <string>
#include <vector>

#include "sextant/base/fields.h"
#include "sextant/model/model.h"
#include "sextant/plan/recompute.h"
#include "sextant/plan/rules.h"

namespace sextant {

enum class WInputs : std::uint8_t { kGather, kKeep };  ///< inputs of weight gradients under sequence parallelism
/// When gradients are summed over the zero axes: once a step, or after each microbatch, into the shard.
enum class GradientReduce : std::uint8_t { kStep, kMicrobatch };
/// How a tensor that all tp ranks hold crosses a stage border: each sends its slice and the receivers gather, or each
/// sends the whole.
enum class StageBorder : std::uint8_t { kSlice, kWhole };

struct Workload {
  std::int64_t sequence = 0;      ///< tokens
  std::int64_t global_batch = 0;  ///< sequences of one step
  DType dtype = DType::kF32;
};

/// [plan] of a run file; all else is derived from it. Plain data parallelism is dp_shard.
struct Plan {
  int dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1, pp = 1;
  int ep = 1, etp = 1;  ///< the ranks of dp_shard x cp x tp read as edp x ep x etp by experts
  bool sequence_parallel = false;
  CpKind cp_kind = CpKind::kAllGather;
  Slices cp_slices = Slices::kContiguous;
  WInputs w_inputs = WInputs::kGather;
  int zero = 0;  ///< what is sharded over dp_shard x cp: 1 optimizer state, 2 gradients too, 3 parameters too
  GradientReduce reduce = GradientReduce::kStep;
  int live_units = 2;                  ///< zero 3: so many buckets are gathered at a time
  DType gradient_dtype = DType::kF32;  ///< what gradients of bf16 parameters are summed in
  Bytes bucket{0};                     ///< a bucket is closed at this many bytes; 0: one a stage (zero 3: one a unit)
  std::string schedule = "1f1b";
  int virtual_stages = 0, group = 0;  ///< 0: the schedule's own
  std::vector<int> most_live;         ///< zb-capped: microbatches that each coordinate may hold; empty: pp
  std::vector<int> stages;            ///< units of each stage; empty: balanced
  StageBorder border = StageBorder::kSlice;
  Recompute recompute;
  std::int64_t microbatch_size = 1;   ///< sequences a rank takes at once
  std::int64_t num_microbatches = 1;  ///< of a step

  int num_ranks() const { return dp_replicate * dp_shard * cp * tp * pp; }
  int data_ranks() const { return dp_replicate * dp_shard; }
  /// Ranks that hold the same experts and have rows of their own; a plan is valid if ep x etp divides the ranks.
  int edp() const {
    return static_cast<int>(std::max<std::int64_t>(1, std::int64_t{dp_shard} * cp * tp / (std::int64_t{ep} * etp)));
  }
};

MeshSizes mesh_of(const Plan& plan);
Rules rules_of(const Plan& plan);
/// Sizes of one microbatch over all data-parallel ranks.
Sizes sizes_of(const Plan& plan, const Workload& workload);

/// Every violation at once, each with the nearest valid values; empty if the plan is valid for the model.
std::vector<std::string> violations(const Plan& plan, const ModelConfig& model, const Workload& workload);
/// Throws InvalidInput that lists them, if there are any.
void validate(const Plan& plan, const ModelConfig& model, const Workload& workload, const std::string& file);

/// Reads [workload] and [plan]. `ranks` fills dp_shard when the file leaves it out (0: 1 rank). num_microbatches
/// follows from the global batch if left out. Throws InvalidInput.
Workload read_workload(const Value& run, const std::string& file);
Plan read_plan(const Value& run, const std::string& file, const Workload& workload, int ranks);

}  // namespace sextant
