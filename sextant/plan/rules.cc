#include "sextant/plan/rules.h"

namespace sextant {

Placement own_placement(const TensorSpec& spec, Axis axis, const Rules& rules, const MeshSizes& mesh) {
  const int degree = mesh[axis];
  if (degree == 1) return replicate();
  for (const DimRule& rule : rules.dims) {
    if (rule.axis != axis || !spec.has(rule.dim)) continue;
    if (rule.dim == 'S' && !spec.has('B')) continue;
    const std::int64_t size = spec.size_of_dim(rule.dim);
    return shard(rule.dim, size < degree ? static_cast<int>(degree / size) : 1);
  }
  return replicate();
}

}  // namespace sextant
