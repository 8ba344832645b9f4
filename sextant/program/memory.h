#pragma once
// Liveness of every buffer: the peak is known before anything runs, and the executor follows the same lists.
#include "sextant/program/program.h"

namespace sextant {

enum class MemoryTag : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kData,
  kActivations,
  kTemporary,
  kBoundary,
  kScratch
};
inline constexpr int kNumMemoryTags = 8;
std::string_view name_of(MemoryTag tag);
MemoryTag tag_of(Life life);

/// A list of steps with what is allocated in front of each and freed behind it.
struct TimedSteps {
  std::vector<Step> steps;
  std::vector<std::vector<int>> allocate, free;  ///< slots, per step
  std::vector<Bytes> scratch;                    ///< workspace during the step, aligned
};
/// A unit's passes as they run: F, then B (I and W fused). The last reader frees a slot; a unit frees the boundary
/// tensors it is given (its input and the gradient of its output) and hands on those it makes.
struct TimedUnit {
  TimedSteps f, b;
};
TimedUnit time_unit(const Unit& unit, const MeshSizes& mesh, int threads);

/// Bytes of one instance of a slot, aligned.
Bytes slot_bytes(const Unit& unit, int slot, const MeshSizes& mesh);

struct MemoryPlan {
  std::vector<TimedUnit> units;
  Bytes peak;                                   ///< greatest sum of live bytes
  std::array<Bytes, kNumMemoryTags> at_peak{};  ///< by tag, at that moment
  std::string peak_where;                       ///< the instruction and step of the peak
};
/// `state_per_element`: optimizer bytes for each parameter element (0 SGD, 2 values for AdamW); `data` what the loader
/// holds for a step; `threads` of a rank, since kernels take workspace for each.
MemoryPlan plan_memory(const Program& program, Bytes state_per_element, Bytes data, int threads);

}  // namespace sextant
