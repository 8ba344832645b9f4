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
  std::vector<std::string> dropout_keys;  ///< fields of the config that say ModelConfig::dropout
  std::string attention_dropout_key = "attention_dropout";
  std::string architecture = "";  ///< the class that other programs load it as
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
GeluKind gelu_kind(Fields& f, const char* key, const char* otherwise);
/// What a family's rotary positions take, and what stands for what is missing.
struct RopeTakes {
  bool yarn = false, part = false;  ///< stretching by YaRN; a part of each head
  double theta = 1e4;
};
/// Rotary base and its stretching, in `rope_theta` and `rope_scaling` or in `rope_parameters` (newer files, which win).
/// Returns the part of a head that turns, or -1 if it is not said.
double read_rope(Fields& f, const std::string& file, ModelConfig& c, RopeTakes takes = {});
/// A number where a missing one stands for `otherwise`, and null for none (0).
double number_or_none(Fields& f, const char* key, double otherwise);
/// Which layers have a window, where `layer_types` says so; else every `period`-th from the first on. A missing window
/// is one of `otherwise`; null, or 0, is none.
void read_windows(Fields& f, ModelConfig& c, std::int64_t period, std::int64_t otherwise = 0);
/// What a missing field of a family that is like Llama stands for.
struct LlamaDefaults {
  std::int64_t kv_heads = 0, head_width = 0;  ///< 0: as many as heads; width / heads
  double epsilon = 1e-6, theta = 1e4;
  bool takes_bias = true;  ///< attention_bias is a field of the family
};
/// The fields that Llama and what came after it share.
ModelConfig read_llama_like(Fields& f, const std::string& file, const std::string& family, LlamaDefaults defaults = {});
std::string llama_tensor(const std::string& what, const std::string& part, int layer);
/// The weight of a router's balance loss: `router_aux_loss_coef`, where `output_router_logits` switches it on.
void read_balance(Fields& f, ModelConfig& c);
/// A field that has one value that is offered.
void must_be(Fields& f, const char* key, bool value);

}  // namespace sextant
