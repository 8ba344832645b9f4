#include <cstdlib>

#include "sextant/base/errors.h"
#include "sextant/base/value.h"

// What is accepted is written and read back as the same text.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    const std::string once = sextant::to_json(sextant::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"));
    if (sextant::to_json(sextant::parse_json(once, "again")) != once) std::abort();
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
