#pragma once
// What is trained: a Hugging Face config.json as layers of ops and an inventory of parameters.
#include <string>
#include <vector>

#include "sextant/base/value.h"
#include "sextant/model/layer.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/norm.h"
#include "sextant/ops/rope.h"

namespace sextant {

enum class Positions : std::uint8_t { kLearned, kRotary };
enum class Ffn : std::uint8_t { kGelu, kSwiglu };
enum class QkNorm : std::uint8_t { kNone, kHead, kProjection };  ///< over K (Qwen3) or over H K (OLMo-2)

/// A dense decoder. Every family is a mapping of its config.json onto this, and names for its files.
struct ModelConfig {
  std::string family;
  std::int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_width = 0, ffn_width = 0, vocabulary = 0,
               max_positions = 0;
  Positions positions = Positions::kRotary;
  Ffn ffn = Ffn::kSwiglu;
  NormKind norm = NormKind::kRms;
  QkNorm qk_norm = QkNorm::kNone;
  double norm_epsilon = 1e-5, rope_theta = 1e4, initial_deviation = 0.02;
  RopeScaling rope_scaling;
  GeluKind gelu = GeluKind::kTanh;
  bool qkv_bias = false, attention_out_bias = false, ffn_bias = false, tied_head = false;
  std::int64_t trained_sequence =
      0;               ///< how long the sequences of its training were; a config may say, else max_positions
  double dropout = 0;  ///< of the embedding and both residual branches
  Value source;        ///< the config.json it was read from, written back beside saved weights
};

/// Families that can be built: gpt2, llama, qwen2, qwen3.
std::vector<std::string> families();
/// Reads a config.json. Throws InvalidInput naming the field.
ModelConfig read_config(const Value& json, const std::string& file);
/// A preset id of specs/models, or the path of a config.json or of a folder that holds one.
ModelConfig find_model(const std::string& name_or_path);
struct Preset {
  std::string name;
  std::string text;  ///< JSON: config fields plus _parameters_total and _source
};
const std::vector<Preset>& model_presets();

enum class ModelPurpose : std::uint8_t { kTrain, kGenerate };  ///< ends in loss, or in logits
struct Model {
  ModelConfig config;
  std::vector<Layer> layers;  ///< embed, L00 ..., head
  /// Every parameter once, by its owner, in model order.
  std::vector<const Parameter*> parameters() const;
  std::int64_t num_parameters() const;
};
Model build_model(const ModelConfig& config, Sizes sizes, ModelPurpose purpose = ModelPurpose::kTrain);

/// Tensors of a Hugging Face file for this model: each name once with its whole shape.
std::vector<FileTensor> file_tensors(const Model& model);

}  // namespace sextant
