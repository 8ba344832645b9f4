#include "sextant/base/errors.h"
#include "sextant/model/model.h"

// A config that is accepted gives a model, if it is one of a size that is planned with.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const sextant::ModelConfig config = sextant::read_config(sextant::parse_json(text, "fuzz"), "fuzz");
    if (config.layers <= 8) sextant::build_model(config, {1, 4, sextant::DType::kF32}).num_parameters();
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
