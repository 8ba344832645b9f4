#pragma once
// Weights of a model in one safetensors file with Hugging Face's names and shapes.
#include <functional>
#include <span>

#include "sextant/model/model.h"
#include "sextant/runtime/checkpoint/safetensors.h"

namespace sextant {

/// The elements of a parameter by its logical name, in the model's dtype.
using ParameterBytes = std::function<std::span<std::byte>(const std::string& name)>;

/// Writes every parameter. Throws InvalidInput (storage).
void save_weights(const std::string& path, const Model& model, const ParameterBytes& parameters);
/// Reads every parameter, float32 or float64, into the model's dtype. Throws InvalidInput that names the tensor when
/// one is missing, left over, of another shape, or not finite.
void load_weights(const Safetensors& file, const Model& model, const ParameterBytes& parameters);

}  // namespace sextant
