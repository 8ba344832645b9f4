#include "sextant/plan/recompute.h"

namespace sextant {

const std::vector<std::string>& recompute_names() {
  static const std::vector<std::string> names{"norm", "act", "attention", "rope", "mla_up"};
  return names;
}

}  // namespace sextant
