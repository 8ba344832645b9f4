#pragma once
// safetensors files: a strict, bounded reader and an atomic writer.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/atomic_file.h"
#include "sextant/base/mapped_file.h"

namespace sextant {

struct StoredTensor {
  std::string name;
  std::string dtype;  ///< "F32", "F64", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// An open file. Everything is checked before it is returned: header length, JSON, known dtypes, sizes in checked
/// arithmetic, and that the tensors cover the data exactly, without overlap or hole.
class Safetensors {
 public:
  /// Throws InvalidInput: storage if it cannot be read, corrupt if anything is off, with file, tensor and
  /// found/allowed.
  static Safetensors open(const std::string& path);
  /// The same on bytes in memory, for tests and fuzzing. `name` stands in messages.
  static Safetensors parse(std::span<const std::byte> bytes, const std::string& name);
  const std::string& name() const { return name_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  /// Throws InvalidInput (corrupt) if the file has changed since it was opened.
  void require_unchanged() const {
    if (file_) file_->require_unchanged();
  }

 private:
  std::string name_;
  std::shared_ptr<MappedFile> file_;  // the tensors' data
  std::vector<StoredTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // their numbers, sorted
};

/// Writes the tensors in order; the file has its name when it is committed. Throws InvalidInput (storage).
void write_safetensors(AtomicFile& file, const std::vector<StoredTensor>& tensors);

}  // namespace sextant
