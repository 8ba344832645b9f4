#include "sextant/base/errors.h"
#include "sextant/base/value.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    sextant::to_json(sextant::parse_run_file(text, "fuzz"));
  } catch (const sextant::InvalidInput&) {
  }
  try {
    sextant::to_json(sextant::parse_run_value(text, "fuzz"));
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
