#include "sextant/base/errors.h"
#include "sextant/ops/convert.h"
#include "sextant/program/draft.h"

namespace sextant {
namespace {

// The slot that gathers the gradient of a tensor used as `used`: placed as the dual.
int gradient_slot(Draft& d, int tensor, const Placements& used) {
  const Placements at = dual(used);
  const auto [found, is_new] = d.gradient.try_emplace({tensor, at}, -1);
  if (is_new) {
    TensorSpec spec = d.spec(tensor);
    spec.at = at;
    spec.name = "d." + spec.name;
    if (d.role(tensor) != Role::kParameter && at != dual(d.own(tensor))) spec.name += ".part";
    found->second = d.add_slot(spec, d.role(tensor) == Role::kParameter ? Life::kGradient : Life::kTemporary);
  }
  return found->second;
}

// Joins the gradients of a tensor's versions into that of its own placement. All uses have contributed by now.
int join_gradients(Draft& d, int tensor) {
  const Placements own = dual(d.own(tensor));
  const auto own_found = d.gradient.find({tensor, own});
  bool has_value = own_found != d.gradient.end();
  std::vector<int> parts;
  for (const auto& [which, slot] : d.gradient)
    if (which.first == tensor && which.second != own) parts.push_back(slot);
  if (!has_value && parts.empty()) return -1;
  const int joined = gradient_slot(d, tensor, d.own(tensor));
  for (const int part : parts) {
    const std::string name = d.unit.slots[static_cast<std::size_t>(joined)].spec.name;
    if (!has_value) {
      d.convert(d.unit.i, part, own, true, name, joined);
      has_value = true;
    } else {
      const int whole = d.convert(d.unit.i, part, own, true, name + ".whole");
      d.unit.i.push_back({std::make_shared<Accumulate>(), Pass::kI, {whole}, {joined}, {}});
    }
  }
  return joined;
}

}  // namespace

void differentiate(Draft& d) {
  if (d.layer.output >= 0) {
    const int whole = gradient_slot(d, d.layer.output, d.own(d.layer.output));
    d.unit.output_gradient = whole;
    if (d.split.slice_output && d.sliced(d.layer.output) != d.own(d.layer.output)) {
      TensorSpec slice = d.spec(d.layer.output);
      slice.name = "d." + slice.name + ".slice";
      slice.at = dual(d.sliced(d.layer.output));
      d.unit.output_gradient = d.add_slot(slice, Life::kBoundary);
      d.convert(d.unit.i, d.unit.output_gradient, dual(d.own(d.layer.output)), true, "", whole);
    }
    d.unit.slots[static_cast<std::size_t>(d.unit.output_gradient)].life = Life::kBoundary;
  }
  for (auto bound = d.nodes.rbegin(); bound != d.nodes.rend(); ++bound) {
    const Op& op = *bound->node->op;
    const bool makes_result = op.result_pass() == Pass::kI;
    int dy = -1;
    if (!makes_result) {
      const int result = bound->node->out[0];
      dy = join_gradients(d, result);
      check(dy >= 0, "every result is used");
      // From the gradient of the result's own placement back to that of what the op yielded.
      dy = d.convert(d.unit.i, dy, dual(bound->yielded[0]), true,
                     d.unit.slots[static_cast<std::size_t>(dy)].spec.name + ".yield");
    }
    for (const Pass pass : {Pass::kI, Pass::kW}) {
      Step step{bound->node->op, pass, {}, {}, pass == Pass::kI ? bound->inside_i : std::vector<Traffic>{}, bound->in};
      const Needs needs = op.needs(pass);
      for (const int i : needs.in) step.reads.push_back(bound->in[static_cast<std::size_t>(i)]);
      for (const int o : needs.out) step.reads.push_back(bound->out[static_cast<std::size_t>(o)]);
      if (!makes_result)
        step.reads.push_back(dy);
      else if (pass == Pass::kI)
        step.writes = bound->out;
      bool makes_any = makes_result && pass == Pass::kI;
      for (std::size_t i = 0; i < bound->node->in.size(); ++i) {
        const int tensor = bound->node->in[i];
        const bool here = d.spec(tensor).is_float() && op.gradient_pass(static_cast<int>(i)) == pass;
        step.writes.push_back(here ? gradient_slot(d, tensor, bound->accepted[i]) : -1);
        makes_any |= here;
      }
      if (makes_any) (pass == Pass::kI ? d.unit.i : d.unit.w).push_back(std::move(step));
    }
  }
  if (d.layer.input >= 0) {
    d.unit.input_gradient = join_gradients(d, d.layer.input);
    if (d.split.slice_input)
      d.unit.input_gradient = d.convert(d.unit.i, d.unit.input_gradient, dual(d.sliced(d.layer.input)), true,
                                        "d." + d.spec(d.layer.input).name + ".slice");
    d.unit.slots[static_cast<std::size_t>(d.unit.input_gradient)].life = Life::kBoundary;
  }
}

}  // namespace sextant
