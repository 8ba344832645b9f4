#include <cstdlib>
#include <map>

#include "sextant/base/errors.h"
#include "sextant/runtime/checkpoint/weights.h"

// An index names plain files of its own folder only.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    const auto index = sextant::read_index({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const auto& [file, tensors] : index.files)
      if (file.empty() || file.find('/') != std::string::npos || file[0] == '\0' || tensors.empty()) std::abort();
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
