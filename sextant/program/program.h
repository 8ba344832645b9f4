#pragma once
// What each rank does in a step, as data: read by the checker, the simulator and the runtime alike.
#include <algorithm>

#include "sextant/base/slices.h"
#include "sextant/program/groups.h"
#include "sextant/program/unit.h"
#include "sextant/schedule/schedule.h"

namespace sextant {

enum class Code : std::uint8_t {
  kCountTokens,  ///< valid tokens of the step, summed over all data: the loss is divided by them
  kRun,          ///< a unit's pass for one microbatch
  kUnshard,      ///< starts the gather of a bucket's parameters (zero 3)
  kReshard,      ///< frees them; the shard stays
  kReduce,       ///< starts the sum of a bucket's gradients over the zero axes, into the shard or everywhere
  kReduceRest,   ///< sums a bucket over all else that it is partial over: see Bucket::rest
  kSend,         ///< starts to send a boundary tensor, which is freed by its kWait
  kRecv,         ///< allocates a boundary tensor and starts to receive it
  kWait,         ///< finishes kUnshard, kReduce, kSend, kRecv or kGatherParams
  kGradNorm,     ///< global norm of the gradients; the loss and wishes to stop, summed over all ranks
  kDecide,       ///< finite? clip factor; the same on all ranks
  kOptStep,      ///< the optimizer, on every bucket
  kGatherParams  ///< starts the gather of the parameters that other ranks have updated (zero 1 and 2)
};
std::string_view name_of(Code code);
/// Whether a kWait has to finish it.
constexpr bool starts_work(Code code) {
  return code == Code::kUnshard || code == Code::kReduce || code == Code::kSend || code == Code::kRecv ||
         code == Code::kGatherParams;
}

struct Instruction {
  Code code{};
  Pass pass = Pass::kF;          ///< kRun; kSend, kRecv: F an output, I the gradient of an input
  bool fused = false;            ///< kRun: I and W as one B
  std::int16_t unit = -1;        ///< kRun; kSend, kRecv: whose boundary tensor it is on this rank
  std::int16_t peer = -1;        ///< kSend, kRecv: pipeline coordinate
  std::int32_t bucket = -1;      ///< kUnshard, kReshard, kReduce, kReduceRest, kGatherParams
  std::int32_t microbatch = -1;  ///< of the step
  std::int32_t waits_for = -1;   ///< kWait: the instruction that it finishes
  std::int32_t pair = -1;        ///< kRun: those of one overlapped pair have the same
  bool operator==(const Instruction&) const = default;
};

/// Units that follow each other on one pipeline coordinate.
struct Stage {
  int index = 0;
  bool is_mirrored = false;
  int first_unit = 0, last_unit = 0;               ///< in RankProgram::units
  int first_microbatch = 0, num_microbatches = 0;  ///< of the step
  int before = -1, after = -1;                     ///< pipeline coordinates of its neighbours; -1 at the ends
};

/// A parameter's place in its bucket. All offsets and sizes in elements.
struct Placed {
  Parameter parameter;
  TensorSpec spec;                    ///< as its uses place it
  std::int64_t offset = 0, size = 0;  ///< size on one rank
};
/// A sum that is left when a bucket has been reduced over the zero axes, over elements [begin, end).
struct RestSum {
  Group group{};
  std::int64_t begin = 0, end = 0;
  int copies = 1;  ///< kCopies: ranks in a group
};
/// Parameters that lie in one flat, padded buffer, are gathered and reduced together, and are held by the same pipeline
/// coordinates.
struct Bucket {
  std::string name;
  Grid grid = Grid::kDense;  ///< of all its parameters
  std::vector<Placed> parameters;
  std::int64_t elements = 0;
  std::vector<int> users;    ///< units of this rank that use them
  std::vector<int> holders;  ///< pipeline coordinates, in order
  std::vector<RestSum> rest;
};

/// Buckets whose parameters a pass of a unit reads, and whose gradients it adds to. B is I and W.
struct BucketUse {
  std::array<std::vector<int>, 3> reads, writes;  ///< by Pass
};

/// The list of one pipeline coordinate. Ranks that differ only in their mesh coordinates share it.
struct RankProgram {
  std::vector<Unit> units;
  std::vector<Stage> stages;
  std::vector<int> stage_of;  ///< per unit
  std::vector<Bucket> buckets;
  std::vector<BucketUse> uses;  ///< per unit
  std::vector<Instruction> code;

  /// Calls `body(bucket)` for every bucket that a kRun reads, or adds to.
  void for_each_read(const Instruction& run, const auto& body) const { for_each(run, &BucketUse::reads, body); }
  void for_each_write(const Instruction& run, const auto& body) const { for_each(run, &BucketUse::writes, body); }
  const Stage& stage(int unit) const {
    return stages[static_cast<std::size_t>(stage_of[static_cast<std::size_t>(unit)])];
  }

 private:
  void for_each(const Instruction& run, auto list, const auto& body) const {
    const auto& of = uses[static_cast<std::size_t>(run.unit)].*list;
    for (const int bucket : of[static_cast<std::size_t>(run.pass)]) body(bucket);
    if (!run.fused) return;
    const auto& with = of[static_cast<std::size_t>(Pass::kI)];
    for (const int bucket : of[static_cast<std::size_t>(Pass::kW)])
      if (std::find(with.begin(), with.end(), bucket) == with.end()) body(bucket);
  }
};
struct Program {
  MeshSizes mesh;
  DType dtype = DType::kF32;           ///< of parameters and activations
  DType gradient_dtype = DType::kF32;  ///< what gradients are summed in, over microbatches and ranks
  int num_microbatches = 1;
  int num_stages = 1;
  int zero = 0;  ///< what is sharded over the zero axes; 0 if those have one rank: see zero_of
  GradientReduce reduce = GradientReduce::kStep;
  Slices cp_slices = Slices::kContiguous;
  std::vector<RankProgram> by_pp;

  int num_ranks() const { return static_cast<int>(by_pp.size()) * mesh.num_ranks(); }
  /// Ranks over which a bucket may be sharded, and is reduced.
  int shards_of(const Bucket& bucket) const { return size_of(zero_group(bucket.grid), mesh); }
  /// The stage of a bucket: dense parameters and experts have zero axes of their own.
  int zero_of(const Bucket& bucket) const { return shards_of(bucket) > 1 ? zero : 0; }
  /// Whether each rank updates a part of its parameters, which all keep whole.
  bool hands_out(const Bucket& bucket) const { return zero_of(bucket) == 1 || zero_of(bucket) == 2; }
  /// Whether whole gradients live for a part of the step only.
  bool reduces_each_microbatch() const { return zero >= 2 && reduce == GradientReduce::kMicrobatch; }
};

/// Lowers every layer and lays out the step under the plan's schedule. The size of the lists does not depend on the
/// number of ranks in the mesh. Throws InvalidInput if a layer cannot be lowered.
Program build_program(const Model& model, const Plan& plan);
Program build_program(const Model& model, const Plan& plan, const Schedule& schedule);

/// Of layers alone: what `build_program` does for a model's.
Program build_program(const std::vector<Layer>& layers, const Plan& plan, const Schedule& schedule);
/// A schedule as a program: so many abstract layers a stage.
Program build_program(const Schedule& schedule, int units_of_stage = 1);

/// FLOPs of a step over all ranks, by the convention of published utilisations: products and attention with all its
/// scores, the backward pass as twice the forward one.
enum class FlopsOf : std::uint8_t {
  kFull,   ///< all scores, as most published utilisations count
  kCausal  ///< scores that are not masked
};
double model_flops(const Program& program, FlopsOf attention = FlopsOf::kFull);

/// Bytes that a rank receives in one step.
struct StepBytes {
  std::array<Bytes, kNumGroups> by_group{};
  Bytes messages;  ///< boundary tensors
  Bytes operator[](Group group) const { return by_group[static_cast<std::size_t>(group)]; }
  Bytes& operator[](Group group) { return by_group[static_cast<std::size_t>(group)]; }
  Bytes total() const;
  bool operator==(const StepBytes&) const = default;
  StepBytes operator*(std::int64_t steps) const;
};
StepBytes promised_bytes(const Program& program, int pp, const Coordinates& at);
/// Values (f64) that a rank brings to COUNT_TOKENS and to GRAD_NORM.
inline constexpr int kCountValues = 1, kNormValues = 3;
/// An all-reduce as reduce-scatter and all-gather over the slice map: what rank `i` of `n` receives.
Bytes all_reduce_bytes(std::int64_t count, DType dtype, int n, int i);

/// Whether this rank counts a parameter's elements (those of its shard) in the global norm: of equal copies one does.
bool counts_in_norm(const Bucket& bucket, const Placed& parameter, int pp, const Coordinates& at,
                    const MeshSizes& mesh);

/// Boundary tensor that a kSend or kRecv moves, as a slot of its unit.
int message_slot(const RankProgram& rank, const Instruction& message);
/// Stage that receives a message, which with its pass, direction and microbatch is its tag.
int receiving_stage(const RankProgram& rank, const Instruction& message);

/// "COUNT_TOKENS", "0F0{ embed L00 }", "SEND act 0->1 mb0 to 1", "REDUCE L00..L01" ...: one line a run of a pass, or an
/// instruction.
std::string to_string(const Program& program);
/// "2'F3": the action that a kRun is of, with its direction's count of microbatches.
std::string action_name(const RankProgram& rank, const Instruction& run);
/// One instruction: "2F3 L08", "SEND act 2->3 mb0 to 1", "WAIT UNSHARD L09".
std::string to_string(const RankProgram& rank, const Instruction& instruction);

}  // namespace sextant
