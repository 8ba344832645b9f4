#pragma once
#include "sextant/model/model.h"

namespace sextant {

/// A layer whose attention and MLP read the same norm and are added together (Wang and Komatsuzaki 2021, "GPT-J"):
/// x + attention(norm(x)) + mlp(norm(x)). Under tensor parallelism their partial sums need one all-reduce, not two.
Layer parallel_block(const ModelConfig& config, int index, Sizes sizes);

}  // namespace sextant
