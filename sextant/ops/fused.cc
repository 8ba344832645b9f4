#include "sextant/ops/fused.h"

#include "sextant/base/str.h"

namespace sextant {

Fused::Fused(OpPtr first_part, OpPtr second_part, int joined_input, int first_inputs)
    : first(std::move(first_part)),
      second(std::move(second_part)),
      joined(joined_input),
      num_first_inputs(first_inputs),
      kind_(str(first->kind(), "+", second->kind())) {}

std::vector<TensorSpec> Fused::second_inputs(std::span<const TensorSpec> in) const {
  const auto split = in.begin() + num_first_inputs;
  std::vector<TensorSpec> inputs(split, in.end());
  inputs.insert(inputs.begin() + joined, first->outputs(in.first(static_cast<std::size_t>(num_first_inputs)))[0]);
  return inputs;
}

std::vector<TensorSpec> Fused::outputs(std::span<const TensorSpec> in) const {
  std::vector<TensorSpec> all = first->outputs(in.first(static_cast<std::size_t>(num_first_inputs)));
  for (TensorSpec& spec : second->outputs(second_inputs(in))) all.push_back(std::move(spec));
  return all;
}

Work Fused::work(Pass pass, std::span<const TensorSpec> local) const {
  const std::vector<TensorSpec> inputs = second_inputs(local);
  Work sum = first->work(pass, local.first(static_cast<std::size_t>(num_first_inputs)));
  sum += second->work(pass, inputs);
  sum.read -= total_bytes(std::span(inputs).subspan(static_cast<std::size_t>(joined), 1));
  return sum;
}

}  // namespace sextant
