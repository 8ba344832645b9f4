#pragma once
#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>

namespace sextant {

/// A regular file in the process' address space, read-only. The pages come from the file as they are read.
class MappedFile {
 public:
  /// Throws InvalidInput (storage) if the file is missing, is none (a folder, a pipe), or cannot be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Throws InvalidInput (corrupt) if the file has changed since it was opened: what was read is of no one state of it.
  void require_unchanged() const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  struct stat opened_;
};

/// The whole of a file. Throws InvalidInput (storage) as above, or if it is larger than `most` bytes.
std::string read_file(const std::string& path, std::int64_t most = std::int64_t{1} << 26);

}  // namespace sextant
