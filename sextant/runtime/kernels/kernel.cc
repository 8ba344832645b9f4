#include "sextant/runtime/kernels/kernel.h"

#include "sextant/base/errors.h"

namespace sextant {

std::int64_t View::last(std::size_t n) const {
  std::int64_t product = 1;
  for (std::size_t i = spec->dims.size() - n; i < spec->dims.size(); ++i) product *= spec->dims[i].size;
  return product;
}

void KernelTable::add(std::string kind, Pass pass, Kernel f32, Kernel f64) {
  kernels_[{std::move(kind), pass}] = {f32, f64};
}

Kernel KernelTable::find(std::string_view kind, Pass pass, DType dtype) const {
  const auto found = kernels_.find({std::string(kind), pass});
  if (found == kernels_.end())
    throw InvalidInput(
        str("no kernel for ", kind, " ", name_of(pass), ": this model can be planned but not trained by this build"));
  if (dtype != DType::kF64 && dtype != DType::kF32)
    throw InvalidInput(str("no kernel for ", kind, " in ", name_of(dtype), ": it can be planned but not trained yet"));
  return dtype == DType::kF64 ? found->second.second : found->second.first;
}

}  // namespace sextant
