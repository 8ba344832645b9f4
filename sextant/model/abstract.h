#pragma once
// A model of which only the order of its layers matters: for schedules that are looked at by themselves.
#include <vector>

#include "sextant/model/layer.h"

namespace sextant {

/// `count` layers of two products each, every dim but the batch of size 1; the first begins with an embedding, the last
/// ends in the loss.
std::vector<Layer> abstract_layers(int count, std::int64_t batch = 1);

}  // namespace sextant
