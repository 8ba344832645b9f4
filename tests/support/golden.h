#pragma once
#include <string>

namespace sextant {

/// Compares text with a file under tests/; SEXTANT_UPDATE_GOLDEN=1 writes the file instead. Returns "" if equal, else
/// the first line that differs.
std::string compare_golden(const std::string& file, const std::string& text);

}  // namespace sextant
