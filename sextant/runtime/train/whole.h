#pragma once
// Whole parameters in and out of ranks that hold parts of them.
#include "sextant/runtime/checkpoint/weights.h"
#include "sextant/runtime/exec/executor.h"

namespace sextant {

/// Reads every parameter into what this rank stores of it. Throws InvalidInput as load_weights.
void load_weights(const WeightFiles& files, const Model& model, Executor& executor);
/// Called by all ranks; the first one writes. Where a rank has parts only, the first one holds a second, whole copy of
/// the weights while it writes.
void save_weights(const std::string& folder, const Model& model, Executor& executor, bool is_first, Bytes shard);

}  // namespace sextant
