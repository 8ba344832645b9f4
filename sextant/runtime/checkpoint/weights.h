#pragma once
// Weights of a model in files with Hugging Face's names and shapes: one safetensors file, or several with an index.
#include <functional>
#include <map>
#include <set>
#include <span>

#include "sextant/model/model.h"
#include "sextant/runtime/checkpoint/safetensors.h"

namespace sextant {

/// The elements of a parameter by its logical name, in the model's dtype.
using ParameterBytes = std::function<std::span<std::byte>(const std::string& name)>;

/// What model.safetensors.index.json says.
struct WeightIndex {
  std::map<std::string, std::set<std::string>> files;  ///< by name, each with its tensors
  std::int64_t total_size = -1;                        ///< bytes of all tensors; -1 if it does not say
};
/// Throws InvalidInput (corrupt) if anything is off, or a file name is more than a name.
WeightIndex read_index(std::string_view json, const std::string& file);

/// The tensors of a model's files.
class WeightFiles {
 public:
  /// `path`: a safetensors file, an index, or a folder that holds model.safetensors or model.safetensors.index.json.
  /// Index and shards must agree to the last tensor. Throws InvalidInput: storage if a file is missing or none, corrupt
  /// if anything is off.
  static WeightFiles open(const std::string& path);
  struct Found {
    const StoredTensor* tensor = nullptr;
    const Safetensors* file = nullptr;
  };
  /// Null if there is none.
  Found find(const std::string& name) const;
  const std::string& path() const { return path_; }
  const std::vector<Safetensors>& files() const { return files_; }
  /// Throws InvalidInput (corrupt) if a file has changed since it was opened.
  void require_unchanged() const;

 private:
  std::string path_;
  std::vector<Safetensors> files_;
};

/// Throws InvalidInput that names file and tensor when one is missing, left over, of another shape or of an unreadable
/// type: everything that is known before a value is read. A tied head may be stored besides its embedding, or in its
/// place; buffers that are no parameters (causal masks, rotary frequencies) may be there, and names may lack the
/// family's first word ("transformer.").
void check_weights(const WeightFiles& files, const Model& model);
/// Reads every parameter, from float64, float32, bfloat16 or float16, into the model's dtype. Throws InvalidInput as
/// above, or when a value is not finite, or the files changed while they were read.
void load_weights(const WeightFiles& files, const Model& model, const ParameterBytes& parameters);

/// Writes every parameter into `folder`: as model.safetensors, or, if that would be larger than `shard`, in several
/// files with an index. What was there under these names before is replaced or removed; a save that is stopped leaves
/// no mixture. Throws InvalidInput (storage).
void save_weights(const std::string& folder, const Model& model, const ParameterBytes& parameters,
                  Bytes shard = {5'000'000'000});
/// The names of files that save_weights may write or remove, as far as they are known before.
std::vector<std::string> weight_file_names();

}  // namespace sextant
