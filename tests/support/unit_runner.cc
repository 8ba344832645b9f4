#include "tests/support/unit_runner.h"

#include <cmath>
#include <limits>

#include "sextant/base/errors.h"
#include "sextant/program/memory.h"

namespace sextant {

UnitRunner::UnitRunner(const Layer& layer, const KernelTable& kernels, int threads)
    : unit_(lower(layer, {})), kernels_(kernels), team_(threads) {
  for (std::size_t s = 0; s < unit_.slots.size(); ++s) {
    const TensorSpec& spec = unit_.slots[s].spec;
    specs_.push_back(local(spec, {}));
    const auto n = static_cast<std::size_t>(spec.elements());
    const int slot = static_cast<int>(s);
    // NaN: what is read before it is written shows.
    if (spec.dtype == DType::kF64) doubles_[slot].assign(n, std::numeric_limits<double>::quiet_NaN());
    if (spec.dtype == DType::kF32) floats_[slot].assign(n, std::numeric_limits<float>::quiet_NaN());
    if (spec.dtype == DType::kI32) ints_[slot].assign(n, 0);
    if (spec.dtype == DType::kI64) longs_[slot].assign(n, 0);
  }
}

int UnitRunner::find(const std::string& slot) const {
  for (std::size_t s = 0; s < unit_.slots.size(); ++s)
    if (unit_.slots[s].spec.name == slot) return static_cast<int>(s);
  throw InternalError("no slot " + slot + " in\n" + to_string(unit_, {}));
}

template <>
std::vector<std::int32_t>& UnitRunner::integers(const std::string& slot) {
  return ints_.at(find(slot));
}
template <>
std::vector<std::int64_t>& UnitRunner::integers(const std::string& slot) {
  return longs_.at(find(slot));
}

void UnitRunner::run(const std::vector<Step>& steps) {
  // A new backward pass (it starts with the first I step) has new activation gradients; parameter gradients add up.
  if (!steps.empty() && steps[0].pass == Pass::kI)
    for (auto& [slot, written] : written_)
      written &= unit_.slots[static_cast<std::size_t>(slot)].life == Life::kGradient ||
                 unit_.slots[static_cast<std::size_t>(slot)].life == Life::kResult;
  const auto view = [&](int slot) {
    const TensorSpec& spec = specs_[static_cast<std::size_t>(slot)];
    void* data = nullptr;
    switch (spec.dtype) {
      case DType::kF64:
        data = doubles_.at(slot).data();
        break;
      case DType::kF32:
        data = floats_.at(slot).data();
        break;
      case DType::kI32:
        data = ints_.at(slot).data();
        break;
      case DType::kI64:
        data = longs_.at(slot).data();
        break;
      case DType::kBf16:
      case DType::kU8:
        break;  // no kernel takes them
    }
    return View{data, &spec};
  };
  const DType dtype = floats_.empty() ? DType::kF64 : DType::kF32;
  const TimedUnit timed = time_unit(unit_, {}, team_.threads());
  for (const Step& step : steps) {
    std::vector<View> reads, writes;
    std::vector<char> add;
    for (const int slot : step.reads) reads.push_back(view(slot));
    for (const int slot : step.writes) {
      writes.push_back(slot >= 0 ? view(slot) : View{});
      add.push_back(slot >= 0 && step.pass != Pass::kF && written_[slot]);
    }
    bool flags[16] = {};
    for (std::size_t i = 0; i < add.size(); ++i) flags[i] = add[i];
    // Exactly what the op says it needs, so that the address sanitizer sees a kernel that takes more.
    std::size_t needed = 0;
    for (const TimedSteps* list : {&timed.f, &timed.b})
      for (std::size_t s = 0; s < list->steps.size(); ++s)
        if (list->steps[s].op == step.op && list->steps[s].pass == step.pass)
          needed = static_cast<std::size_t>(list->scratch[s].value);
    std::vector<double> scratch(needed / sizeof(double), std::numeric_limits<double>::quiet_NaN());
    kernels_.find(step.op->kind(), step.pass,
                  dtype)({*step.op, step.pass, reads, writes, std::span<const bool>(flags, writes.size()),
                          scratch.data(), team_, 7, 0.25});
    for (const int slot : step.writes)
      if (slot >= 0) written_[slot] = true;
  }
}

}  // namespace sextant
