#include <cstdlib>

#include "sextant/base/errors.h"
#include "sextant/runtime/data/tokenizer.h"

// A file that is accepted encodes text, and what it decodes to is that text unless it was normalised. The first byte
// says how much of the input is text.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view text = all.substr(0, data[0] % 64), json = all.substr(text.size());
  try {
    const sextant::Tokenizer t = sextant::Tokenizer::parse(json, "fuzz");
    std::string back;
    for (const std::int32_t id : t.encode(text)) {
      if (id < 0 || id >= t.vocabulary()) std::abort();
      back += t.decode(id);
    }
  } catch (const sextant::InvalidInput&) {
  }
  return 0;
}
