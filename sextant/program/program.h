#pragma once
// What each rank does in a step, as data: read by the checker, the simulator and the runtime alike.
#include "sextant/base/slices.h"
#include "sextant/program/unit.h"

namespace sextant {

enum class Code : std::uint8_t {
  kCountTokens,  ///< valid tokens of the step, summed over all data: the loss is divided by them
  kRun,          ///< a unit's pass for one microbatch
  kReduce,       ///< starts the sum of a bucket's gradients over the zero axes
  kWait,         ///< finishes it
  kReduceRest,   ///< sums a bucket over every other axis it is partial over (dp_replicate)
  kGradNorm,     ///< global norm of the gradients; the loss and wishes to stop, summed over all data
  kDecide,       ///< finite? clip factor; the same on all ranks
  kOptStep       ///< the optimizer, on every bucket
};
std::string_view name_of(Code code);

struct Instruction {
  Code code{};
  Pass pass = Pass::kF;
  bool fused = false;  ///< kRun: I and W as one B
  int unit = -1;       ///< kRun
  int bucket = -1;     ///< kReduce, kWait, kReduceRest
  int microbatch = -1;
};

/// A parameter's place in its bucket. All offsets and sizes in elements.
struct Placed {
  int unit = -1, parameter = -1;
  std::int64_t offset = 0, size = 0;  ///< size on one rank
};
/// A run of units whose parameters lie in one flat, padded buffer, and whose gradients are reduced together.
struct Bucket {
  int first_unit = 0, last_unit = 0;
  std::vector<Placed> parameters;
  std::int64_t elements = 0;
};

/// Groups of ranks that the step talks over.
enum class Group : std::uint8_t { kZero, kReplicas, kData };  ///< dp_shard x cp | dp_replicate | both
std::string_view name_of(Group group);
int size_of(Group group, const MeshSizes& mesh);

/// The list of one pipeline coordinate.
struct RankProgram {
  std::vector<Unit> units;
  std::vector<Bucket> buckets;
  std::vector<Instruction> code;
};
struct Program {
  MeshSizes mesh;
  DType dtype = DType::kF32;
  int num_microbatches = 1;
  std::vector<RankProgram> by_pp;
};

/// Lowers every layer and lays out the step. The size of the lists does not depend on the number of ranks.
Program build_program(const Model& model, const Plan& plan);

/// Bytes that the rank with these coordinates in its groups receives in one step, by group.
struct StepBytes {
  Bytes zero, replicas, data;
  Bytes total() const { return zero + replicas + data; }
};
StepBytes promised_bytes(const Program& program, int zero_rank, int replica_rank, int data_rank);
/// Values (f64) that a rank brings to COUNT_TOKENS and to GRAD_NORM.
inline constexpr int kCountValues = 1, kNormValues = 2;
/// An all-reduce as reduce-scatter and all-gather over the slice map: what rank `i` of `n` receives.
Bytes all_reduce_bytes(std::int64_t count, DType dtype, int n, int i);

/// "COUNT_TOKENS", "0F0{ embed L00 head }", "REDUCE L00..L01" ...: one line a run of a pass, or an instruction.
std::string to_string(const Program& program);

}  // namespace sextant
