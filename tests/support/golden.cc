#include "tests/support/golden.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace sextant {

std::string compare_golden(const std::string& file, const std::string& text) {
  const std::string path = std::string(SEXTANT_SOURCE_DIR) + "/tests/" + file;
  if (const char* update = std::getenv("SEXTANT_UPDATE_GOLDEN"); update && *update == '1') {
    std::ofstream(path) << text;
    return "";
  }
  std::ifstream in(path);
  if (!in) return file + " is missing; SEXTANT_UPDATE_GOLDEN=1 writes it";
  std::istringstream now(text);
  std::string wanted, found;
  for (int line = 1;; ++line) {
    const bool has_wanted = static_cast<bool>(std::getline(in, wanted)),
               has_found = static_cast<bool>(std::getline(now, found));
    if (!has_wanted && !has_found) return "";
    if (has_wanted != has_found || wanted != found)
      return file + ":" + std::to_string(line) + "\n  golden: " + (has_wanted ? wanted : "(end)") +
             "\n  now:    " + (has_found ? found : "(end)");
  }
}

}  // namespace sextant
