#pragma once
// A family of models: how its config.json maps onto ModelConfig, and what its tensors are called in files.
#include <string>

#include "sextant/base/fields.h"
#include "sextant/model/model.h"

namespace sextant {

/// How q, k and v lie in files.
enum class QkvLayout : std::uint8_t {
  kApart,
  kJoined,  ///< q, k, v one after the other in one tensor (GPT-2, MPT)
  kByHead   ///< q, k, v of each head in turn (GPT-NeoX)
};

struct Family {
  std::string name;
  ModelConfig (*read)(Fields& fields, const std::string& file);
  /// `what` is one of embed, positions, norm1, q, k, v, out, q_norm, k_norm, norm1_behind, norm2, gate, up, down,
  /// norm2_behind, final_norm, head; `part` is "weight" or "bias".
  std::string (*tensor)(const std::string& what, const std::string& part, int layer) = nullptr;
  bool transposed = false;  ///< matrices of products are stored [in, out]
  QkvLayout qkv = QkvLayout::kApart;
};

/// One function a file family_*.cc.
std::vector<Family> gpt2_families();
std::vector<Family> llama_families();
std::vector<Family> olmo2_families();
std::vector<Family> gemma2_families();
std::vector<Family> gpt_neox_families();
std::vector<Family> mpt_families();
std::vector<Family> mixture_families();
std::vector<Family> deepseek_families();
std::vector<Family> gpt_oss_families();
const Family& family_of(const ModelConfig& config);

// What the readers share.
inline constexpr std::int64_t kMost = std::int64_t{1} << 31, kMostLayers = 2048;
GeluKind gelu_kind(Fields& f, const char* key);
/// Rotary base and its stretching, in `rope_theta` and `rope_scaling` or in `rope_parameters` (newer files).
void read_rope(Fields& f, const std::string& file, ModelConfig& c, bool takes_yarn = false);
/// Which layers have a window, where `layer_types` says so; else every `period`-th from the first on. No window, none.
void read_windows(Fields& f, ModelConfig& c, std::int64_t period);
/// The fields that Llama and what came after it share.
ModelConfig read_llama_like(Fields& f, const std::string& file, const std::string& family);
std::string llama_tensor(const std::string& what, const std::string& part, int layer);
/// A field that has one value that is offered.
void must_be(Fields& f, const char* key, bool value);

}  // namespace sextant
