#pragma once
// One layer, lowered: what its passes do on one rank, as steps over slots.
#include <string>
#include <vector>

#include "sextant/model/layer.h"
#include "sextant/plan/plan.h"

namespace sextant {

enum class Life : std::uint8_t {
  kParameter,  ///< lives as long as the run, in a bucket
  kGradient,   ///< of a parameter, in its bucket: one instance a step, contributions of all microbatches add up
  kResult,     ///< the loss: one value a step, summed over microbatches
  kKept,       ///< from F until its last reader in I or W
  kTemporary,  ///< within one pass
  kBoundary,   ///< handed from unit to unit
  kData        ///< made by the loader for the whole step
};
std::string_view name_of(Life life);

struct Slot {
  TensorSpec spec;
  Life life = Life::kTemporary;
};

/// One pass of one op. F reads its inputs and writes its outputs. I and W read what the op needs (inputs, then
/// outputs), then the gradient of output 0, and write the gradient of each input (-1: not made by this pass). An op
/// whose result_pass is I reads no gradient and writes its outputs before the gradients.
struct Step {
  OpPtr op;
  Pass pass = Pass::kF;
  std::vector<int> reads, writes;
  std::vector<Traffic> inside;  ///< collectives within the kernel
  std::vector<int> inputs{};    ///< of the op, as its forward pass takes them; of a forward step its reads
};

struct Unit {
  std::string name;  ///< "embed", "L07", "head"
  int layer = -1;
  int like = -1;  ///< units of a program with the same number >= 0 differ in their names only
  std::vector<Slot> slots;
  std::vector<Step> f, i, w;  ///< w holds matrix products and what they gather again
  int input = -1, output = -1, output_gradient = -1, input_gradient = -1;  ///< boundary slots; -1 if none
  std::vector<Parameter> parameters;                                       ///< owned ones
  /// i with the w steps: each right behind the i step that it waits for; or, where a collective is still to come,
  /// behind that is started, so that it is hidden.
  std::vector<Step> b() const;
};

/// Whether a step starts a collective. All other steps are done when the next one begins.
bool starts_collective(const Step& step);
/// Of each step the one in front of which it is done: the next, or for a collective the first one that touches what it
/// makes or overwrites what it reads; the size of the list for the end of the list.
std::vector<std::size_t> done_before(const std::vector<Step>& steps);

/// What a step's op takes, as this rank holds it: what its work, products and scratch are declared by.
std::vector<TensorSpec> local_inputs(const Unit& unit, const Step& step, const MeshSizes& mesh);

/// How a layer is split: mesh, rules, and what is gathered again.
struct LayerSplit {
  MeshSizes mesh;
  Rules rules;
  WInputs w_inputs = WInputs::kGather;
  Recompute recompute;  ///< of this layer
  /// Boundary tensors that every tp rank holds whole cross the stage border as slices of the sequence.
  bool slice_input = false, slice_output = false;
};
/// As the plan splits every layer; without what depends on its place (recompute, borders).
LayerSplit split_of(const Plan& plan);

/// place, partition, differentiate, keep, fuse. Throws InvalidInput if an op refuses its placement.
Unit lower(const Layer& layer, const LayerSplit& split);

/// Collectives of a list of steps, one line of `what` each: conversions and those inside kernels.
struct NamedTraffic {
  std::string what;
  Traffic traffic;
};
std::vector<NamedTraffic> traffic(const Unit& unit, const Step& step, const MeshSizes& mesh);
std::vector<NamedTraffic> traffic(const Unit& unit, const std::vector<Step>& steps, const MeshSizes& mesh);

/// Readable text: every step with its slots and placements, every collective with its bytes.
std::string to_string(const Unit& unit, const MeshSizes& mesh);

}  // namespace sextant
