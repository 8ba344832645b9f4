#include <cstdlib>

#include "sextant/base/errors.h"
#include "sextant/runtime/checkpoint/safetensors.h"

// What is accepted covers the data exactly, and every byte of it can be read.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    const auto file = sextant::Safetensors::parse(std::as_bytes(std::span(data, size)), "fuzz");
    unsigned sum = 0;
    std::size_t covered = 0;
    for (const sextant::StoredTensor& t : file.tensors()) {
      covered += t.data.size();
      for (const std::byte b : t.data) sum += static_cast<unsigned>(b);
    }
    if (covered > size || sum > 255 * covered) std::abort();
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
