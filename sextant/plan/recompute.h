#pragma once
#include <string>
#include <vector>

namespace sextant {

/// What the backward pass rebuilds instead of keeping it: nothing, whole layers but for their input, or the results of
/// named ops. Korthikanti et al. 2022 call the last one selective.
struct Recompute {
  bool full = false;
  std::vector<std::string> ops;  ///< of recompute_names(); empty with `full`
  int layers = -1;               ///< the first so many layers of every stage; -1: all
  bool any() const { return full || !ops.empty(); }
};

/// Names that `ops` takes: "norm", "act", "attention", "rope", "mla_up".
const std::vector<std::string>& recompute_names();

}  // namespace sextant
