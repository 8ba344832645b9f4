// A new placement rule is one stem: batch_over_tensor_ranks.{h,cc}, one line of data. From it alone follows that no
// layer needs a collective, and that every gradient is partial over the axis: data parallelism.
#include <iostream>

#include "batch_over_tensor_ranks.h"
#include "sextant/plan/tensor_parallel.h"
#include "sextant/program/unit.h"

using namespace sextant;

namespace {

void show(const char* name, const std::vector<DimRule>& rules) {
  const Model model = build_model(find_model("gpt2"), {8, 64, DType::kF32});
  LayerSplit split;
  split.mesh[Axis::kTp] = 4;
  split.rules.dims = rules;
  int collectives = 0, partial_gradients = 0, gradients = 0;
  std::int64_t received = 0, parameters = 0;
  for (const Layer& layer : model.layers) {
    const Unit unit = lower(layer, split);
    for (const auto& list : {unit.f, unit.b()})
      for (const NamedTraffic& t : traffic(unit, list, split.mesh))
        collectives += t.traffic.calls, received += t.traffic.bytes.value;
    for (const Slot& slot : unit.slots) {
      if (slot.life == Life::kParameter && layer.name != "head") parameters += local_elements(slot.spec, split.mesh);
      if (slot.life != Life::kGradient) continue;
      ++gradients;
      partial_gradients += slot.spec.on(Axis::kTp).kind == Kind::kPartial;
    }
  }
  std::cout << name << ": " << collectives << " collectives in a step's layers, " << received << " B received; "
            << partial_gradients << " of " << gradients << " gradients partial; " << parameters
            << " parameters on a rank (without the head's norm)\n";
}

}  // namespace

int main() {
  show("heads and widths over tp 4", tensor_parallel_rules());
  show("batch over tp 4           ", batch_over_tensor_ranks());
}
