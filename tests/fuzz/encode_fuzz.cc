#include <cstdlib>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/runtime/data/tokenizer.h"

// Any text under a good tokenizer: refused if it is no UTF-8, else decoded to itself.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static const sextant::Tokenizer kTokenizer =
      sextant::Tokenizer::open(std::string(SEXTANT_SOURCE_DIR) + "/tests/tokenizer/base.json");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    std::string back;
    for (const std::int32_t id : kTokenizer.encode(text)) back += kTokenizer.decode(id);
    if (back != text) std::abort();
  } catch (const sextant::InvalidInput&) {
    if (sextant::first_invalid_utf8(text) == std::string_view::npos) std::abort();
  }
  return 0;
}
