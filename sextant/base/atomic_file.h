#pragma once
// Files that are complete or not there.
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

/// Writes through a temporary file beside the target, fsync and rename, so that a reader sees the old or the new
/// content, never a part; a link is followed. A device or pipe is written to directly. Every method throws InvalidInput
/// (storage).
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();  ///< without commit(): the target stays as it was
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(const void* data, std::size_t size);
  void write_at(std::size_t offset, const void* data, std::size_t size);
  /// `durable`: on the disk when it returns.
  void commit(bool durable = true);
  bool is_regular() const { return !temporary_.empty(); }

 private:
  [[noreturn]] void fail(const std::string& why);
  std::string shown_, target_, temporary_;
  int fd_ = -1;
};

/// The whole of a small file.
void write_file(const std::string& path, std::string_view text, bool durable = true);
/// Throws InvalidInput (storage) unless `path` can be written; `what` names it in the message. Leaves nothing behind.
void require_writable(const std::string& path, const std::string& what);
/// Creates a folder and its parents. Throws InvalidInput (storage).
void make_folder(const std::string& path, const std::string& what);
/// Whether both paths name one file, there or not yet.
bool same_file(const std::string& a, const std::string& b);
/// Throws InvalidInput if `target`, named `what` in the message, is one of the files that the command reads or writes.
void require_apart(const std::string& target, const std::string& what, const std::vector<std::string>& others);

}  // namespace sextant
