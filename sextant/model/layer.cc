#include "sextant/model/layer.h"

#include "sextant/base/errors.h"

namespace sextant {

LayerBuilder::LayerBuilder(std::string name, int index, Sizes sizes) : sizes_(sizes) {
  layer_.name = std::move(name);
  layer_.index = index;
}

int LayerBuilder::add(LayerTensor tensor) {
  layer_.tensors.push_back(std::move(tensor));
  return static_cast<int>(layer_.tensors.size()) - 1;
}

int LayerBuilder::input(std::string dims, std::vector<std::int64_t> sizes) {
  check(layer_.input < 0 && dims.size() == sizes.size(), "a layer has one input");
  TensorSpec spec{.name = layer_.name + ".in", .dtype = sizes_.dtype};
  for (std::size_t i = 0; i < dims.size(); ++i) spec.dims.push_back({dims[i], sizes[i]});
  return layer_.input = add({std::move(spec), Role::kBoundary});
}

int LayerBuilder::data(const std::string& name, DType dtype) {
  return add({{.name = name, .dims = {{'B', sizes_.batch}, {'S', sizes_.sequence}}, .dtype = dtype}, Role::kData});
}

int LayerBuilder::parameter(Parameter parameter) {
  if (!parameter.is_shared) parameter.spec.name = layer_.name + "." + parameter.spec.name;
  parameter.spec.dtype = sizes_.dtype;
  const int index = static_cast<int>(layer_.parameters.size());
  layer_.parameters.push_back(parameter);
  return add({std::move(parameter.spec), Role::kParameter, index});
}

int LayerBuilder::apply(const OpPtr& op, std::vector<int> in, const std::string& name) {
  std::vector<TensorSpec> specs;
  for (const int i : in) specs.push_back(spec(i));
  Node node{op, std::move(in), {}};
  std::size_t number = 0;
  for (TensorSpec& out : op->outputs(specs)) {
    out.name = layer_.name + "." + name + (number ? str(".stat", number) : "");
    ++number;
    node.out.push_back(add({std::move(out), Role::kValue}));
  }
  layer_.nodes.push_back(std::move(node));
  return layer_.nodes.back().out[0];
}

Layer LayerBuilder::finish(int output) {
  layer_.output = output;
  if (output >= 0) layer_.tensors[static_cast<std::size_t>(output)].role = Role::kBoundary;
  return std::move(layer_);
}

}  // namespace sextant
