#pragma once
// What is trained: a Hugging Face config.json as layers of ops and an inventory of parameters.
#include <string>
#include <vector>

#include "sextant/base/value.h"
#include "sextant/model/layer.h"
#include "sextant/ops/attention.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/head.h"
#include "sextant/ops/linear.h"
#include "sextant/ops/norm.h"
#include "sextant/ops/rope.h"
#include "sextant/ops/router.h"

namespace sextant {

enum class Positions : std::uint8_t { kLearned, kRotary, kAlibi };
enum class Ffn : std::uint8_t { kGelu, kSwiglu, kGeglu, kClampedSwiglu };
enum class QkNorm : std::uint8_t { kNone, kHead, kProjection };  ///< over K (Qwen3) or over H K (OLMo-2)
/// Where a branch is normalised: before it (GPT-2, Llama), behind it (OLMo-2), or both (Gemma 2).
enum class NormOrder : std::uint8_t { kBefore, kBehind, kBoth };

/// Layers whose ffn is a mixture of experts.
struct MixtureConfig {
  std::int64_t experts = 0;  ///< 0: the model has none
  std::int64_t expert_width = 0, shared_width = 0;
  std::int64_t first_dense = 0;          ///< so many layers at the start have a plain ffn
  std::int64_t period = 1;               ///< every so-many-th layer behind them is a mixture
  std::vector<std::int64_t> also_dense;  ///< and these are not
  RouterRule router;
  bool biases = false;  ///< of router and experts
  /// Rows that the fullest rank has room for, of the mean: what its experts take and hold. 0: as many as the mean when
  /// planned, and when run as many as any routing needs.
  double imbalance = 0;
  double room() const { return imbalance > 0 ? imbalance : 1; }
  /// For a run: no token is dropped, whatever the router decides, unless another room was asked for.
  void make_room() {
    if (experts > 0 && imbalance == 0) imbalance = static_cast<double>(experts) / static_cast<double>(router.top_k);
  }
};
/// Multi-head latent attention (DeepSeek-V2); widths of the head's parts and of the latents.
struct LatentConfig {
  std::int64_t kv_rank = 0;  ///< 0: the model has none
  std::int64_t q_rank = 0;   ///< 0: queries are not compressed
  std::int64_t key_width = 0, rope_width = 0, value_width = 0;
};

/// A decoder. Every family is a mapping of its config.json onto this, and names for its files.
struct ModelConfig {
  std::string family;
  std::int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_width = 0, ffn_width = 0, vocabulary = 0,
               max_positions = 0;
  Positions positions = Positions::kRotary;
  Ffn ffn = Ffn::kSwiglu;
  NormKind norm = NormKind::kRms;
  NormOrder norm_order = NormOrder::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  double norm_epsilon = 1e-5, rope_theta = 1e4, initial_deviation = 0.02;
  bool norm_one_more = false, norm_bias = true;  ///< scales by 1 + w; a layer norm has a bias
  RopeScaling rope_scaling;
  std::int64_t rotary_width = 0;  ///< of a head's elements the first so many turn; 0: all
  GeluKind gelu = GeluKind::kTanh;
  bool qkv_bias = false, attention_out_bias = false, ffn_bias = false, tied_head = false;
  bool parallel_branches = false;  ///< attention and ffn read the same input and are added together (GPT-NeoX)
  AttentionRule attention;         ///< its window is that of the layers that slide
  std::vector<bool> slides;        ///< by layer; empty: none does
  double embedding_scale = 1;
  HeadRule head;
  MixtureConfig mixture;
  LatentConfig latent;
  int mtp_depth = 0;  ///< 1: the head predicts a second token too, by a layer of its own (multi-token prediction)
  std::int64_t trained_sequence =
      0;                         ///< how long the sequences of its training were; a config may say, else max_positions
  double dropout = 0;            ///< of the embedding and both residual branches
  double attention_dropout = 0;  ///< of attention weights; training refuses all but 0
  AttentionCore attention_core = AttentionCore::kFlash;
  ProductType product_type = ProductType::kOwn;  ///< of layers; head and embedding keep theirs
  NormKernel norm_kernel = NormKernel::kOne;
  bool stored_masks = false;  ///< dropout keeps a byte an element
  Value source;               ///< the config.json it was read from, written back beside saved weights

  bool is_mixture(std::int64_t layer) const;
  bool has_dense_ffn() const;  ///< whether any layer has an ffn that is no mixture
  /// Layers of the same kind differ in their names only.
  int layer_kind(std::int64_t layer) const;
  /// Why it is only lowered, planned and simulated so far; "" if it trains.
  std::string not_trained() const;
};

/// Families that can be built, by model_type.
std::vector<std::string> families();
/// Reads a config.json. Throws InvalidInput naming the field.
ModelConfig read_config(const Value& json, const std::string& file);
/// The config.json to write beside weights of this model: what it was read from, with the dropout it was trained with
/// and the type of the weights, and without what presets carry.
Value config_to_write(const ModelConfig& config, DType dtype);
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
  std::string tied_head_name;  ///< what files call a head that is the embedding; "" if it is none
  std::vector<Layer> layers;   ///< embed, L00 ..., head
  /// Every parameter once, by its owner, in model order.
  std::vector<const Parameter*> parameters() const;
  std::int64_t num_parameters() const;
};
Model build_model(const ModelConfig& config, Sizes sizes, ModelPurpose purpose = ModelPurpose::kTrain);

/// Tensors of a Hugging Face file for this model: each name once with its whole shape. Not for mixtures yet.
std::vector<FileTensor> file_tensors(const Model& model);

}  // namespace sextant
