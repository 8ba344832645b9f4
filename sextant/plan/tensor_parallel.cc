#include "sextant/plan/tensor_parallel.h"

namespace sextant {

std::vector<DimRule> tensor_parallel_rules() {
  return {{'H', Axis::kTp}, {'G', Axis::kTp}, {'F', Axis::kTp}, {'V', Axis::kTp}};
}

}  // namespace sextant
