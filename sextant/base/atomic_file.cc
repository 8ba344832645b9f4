#include "sextant/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sextant/base/errors.h"

namespace sextant {

AtomicFile::AtomicFile(std::string path) : shown_(printable(path)), target_(std::move(path)) {
  if (target_.empty()) throw InvalidInput("a file to write has an empty name", ExitCode::kStorage);
  if (char real[PATH_MAX]; ::realpath(target_.c_str(), real)) target_ = real;  // a link stays one
  struct stat info {};
  const bool exists = ::stat(target_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail("is a folder, expected a file");
  if (exists && !S_ISREG(info.st_mode)) {
    fd_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) fail(std::strerror(errno));
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);  // opening must not wait for a reader; writing may
    return;
  }
  temporary_ = target_ + ".tmp" + std::to_string(::getpid());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    const std::string why = std::strerror(errno);
    temporary_.clear();
    fail(why);
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& why) {
  throw InvalidInput(str(shown_, ": cannot be written: ", why), ExitCode::kStorage);
}

void AtomicFile::write(const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = ::write(fd_, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(std::strerror(errno));
    at += put, size -= static_cast<std::size_t>(put);
  }
}

void AtomicFile::write_at(std::size_t offset, const void* data, std::size_t size) {
  if (::pwrite(fd_, data, size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size)) fail(std::strerror(errno));
}

void AtomicFile::commit(bool durable) {
  if (temporary_.empty()) return;
  if (durable && ::fsync(fd_) != 0) fail(std::strerror(errno));
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(std::strerror(errno));
  temporary_.clear();
  if (!durable) return;
  // The new name is safe when the folder is. A file system that cannot say so is left to itself.
  const std::string folder = std::filesystem::path(target_).parent_path();
  const int at = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (at >= 0) ::fsync(at), ::close(at);
}

void write_file(const std::string& path, std::string_view text, bool durable) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit(durable);
}

void require_writable(const std::string& path, const std::string& what) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    // A reader of a pipe would see an end if it were opened and closed here.
    if (::access(path.c_str(), W_OK) != 0)
      throw InvalidInput(str(what, " ", printable(path), ": cannot be written: ", std::strerror(errno)),
                         ExitCode::kStorage);
    return;
  }
  try {
    const AtomicFile probe(path);
  } catch (const InvalidInput& e) {
    throw InvalidInput(what + " " + e.what(), ExitCode::kStorage);
  }
}

void make_folder(const std::string& path, const std::string& what) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw InvalidInput(str(what, " ", printable(path), ": cannot be made a folder: ", error.message()),
                       ExitCode::kStorage);
}

bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  struct stat x {
  }, y{};
  if (::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0) return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
  std::error_code error_a, error_b;
  const auto path_a = std::filesystem::weakly_canonical(a, error_a),
             path_b = std::filesystem::weakly_canonical(b, error_b);
  return !error_a && !error_b && path_a == path_b;
}

void require_apart(const std::string& target, const std::string& what, const std::vector<std::string>& others) {
  for (const std::string& other : others)
    if (same_file(target, other))
      throw InvalidInput(str(what, " ", printable(target),
                             ": is read or written by this command as something else; use another file"));
}

}  // namespace sextant
