#include "sextant/ops/fused.h"
#include "sextant/ops/norm.h"
#include "sextant/program/draft.h"

namespace sextant {
namespace {

struct Fusion {
  std::string_view first, second;
};
// What is fused: neighbours whose joint kernel saves a pass over memory. Each has a kernel named "first+second".
constexpr Fusion kFusions[] = {{"residual", "layernorm"}, {"residual", "rmsnorm"}};

}  // namespace

void fuse(Draft& d) {
  std::vector<Step> steps;
  for (Step& step : d.unit.f) {
    Step* before = steps.empty() ? nullptr : &steps.back();
    bool fuses = false;
    for (const Fusion& f : kFusions) fuses |= before && before->op->kind() == f.first && step.op->kind() == f.second;
    // A collective inside a kernel is a place where the rank waits: such steps stay alone.
    fuses = fuses && before->inside.empty() && step.inside.empty();
    if (const auto* norm = dynamic_cast<const Norm*>(step.op.get())) fuses &= norm->kernel == NormKernel::kOne;
    std::size_t joined = 0;
    while (fuses && joined < step.reads.size() && step.reads[joined] != before->writes[0]) ++joined;
    if (!fuses || joined == step.reads.size()) {
      steps.push_back(std::move(step));
      continue;
    }
    before->op =
        std::make_shared<Fused>(before->op, step.op, static_cast<int>(joined), static_cast<int>(before->reads.size()));
    step.reads.erase(step.reads.begin() + static_cast<std::ptrdiff_t>(joined));
    before->reads.insert(before->reads.end(), step.reads.begin(), step.reads.end());
    before->writes.insert(before->writes.end(), step.writes.begin(), step.writes.end());
  }
  d.unit.f = std::move(steps);
}

}  // namespace sextant
