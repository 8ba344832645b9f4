#pragma once
#include <string>

namespace sextant {

/// Names of a family's files. `what` is one of embed, positions, norm1, q, k, v, out, q_norm, k_norm, norm2, gate, up,
/// down, final_norm, head; `part` is "weight" or "bias".
struct FileNames {
  std::string (*name)(const std::string& what, const std::string& part, int layer);
  bool transposed = false;  ///< matrices of products are stored [in, out]
  bool joined_qkv = false;  ///< q, k and v are parts of one tensor
};
FileNames gpt2_file_names();
FileNames llama_file_names();

}  // namespace sextant
