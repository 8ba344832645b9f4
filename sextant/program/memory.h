#pragma once
// Liveness of every buffer: the peak is known before anything runs, and the executor follows the same lists.
#include <functional>
#include <memory>

#include "sextant/program/program.h"

namespace sextant {

enum class MemoryTag : std::uint8_t {
  kParameters,
  kGathered,  ///< parameters of other ranks' shards
  kGradients,
  kOptimizer,
  kData,
  kActivations,
  kTemporary,
  kBoundary,
  kScratch
};
inline constexpr int kNumMemoryTags = 9;
std::string_view name_of(MemoryTag tag);
MemoryTag tag_of(Life life);

/// A list of steps with what is allocated in front of each and freed when it is done.
struct TimedSteps {
  std::vector<Step> steps;
  std::vector<std::vector<int>> allocate, free;  ///< slots, per step
  std::vector<Bytes> scratch;                    ///< workspace until the step is done, aligned
  std::vector<bool> is_started;                  ///< a collective, which is done later than the next step begins
  /// Collectives that are finished in front of a step, or at the end of the list (one more than there are steps).
  std::vector<std::vector<std::size_t>> finish;
};
/// A unit's passes as they run: F, then B (I and W fused) or I and W apart. The last reader frees a slot; a unit frees
/// the boundary tensors it is given (its input and the gradient of its output) and hands on those it makes.
struct TimedUnit {
  TimedSteps f, b, i, w;
  const TimedSteps& of(const Instruction& run) const {
    return run.pass == Pass::kF ? f : run.fused ? b : run.pass == Pass::kI ? i : w;
  }
};
TimedUnit time_unit(const Unit& unit, const MeshSizes& mesh, int threads);

/// Bytes of one instance of a slot, aligned.
Bytes slot_bytes(const Unit& unit, int slot, const MeshSizes& mesh);
/// Elements of a bucket on one rank that hold its parameters between steps, its gradients, its optimizer state.
struct Stored {
  std::int64_t parameters = 0, gradients = 0, state = 0;
};
Stored stored_elements(const Program& program, const Bucket& bucket);

using LiveBytes = std::array<Bytes, kNumMemoryTags>;
struct MemoryPlan {
  std::vector<std::shared_ptr<const TimedUnit>> units;  ///< those of like units are one
  Bytes peak;                                           ///< greatest sum of live bytes
  LiveBytes at_peak{};                                  ///< by tag, at that moment
  std::string peak_where;                               ///< the instruction and step of the peak
  Bytes at_start, at_end;                               ///< sums in front of and behind the step: equal if all is freed
};
/// What a rank of coordinate `pp` holds through a step.
/// `state_per_element`: optimizer bytes for each parameter element (0 SGD, 2 values for AdamW); `data` what the loader
/// holds for a step; `threads` of a rank, since kernels take workspace for each. `on_instruction`, if given, is called
/// behind each instruction with the greatest sum of live bytes during it and the sum behind it.
MemoryPlan plan_memory(
    const Program& program, int pp, Bytes state_per_element, Bytes data, int threads,
    const std::function<void(std::size_t instruction, Bytes greatest, Bytes behind)>& on_instruction = {});

}  // namespace sextant
