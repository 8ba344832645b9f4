#include "sextant/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sextant/base/errors.h"

namespace sextant {

MappedFile::MappedFile(const std::string& path) : path_(path), opened_{} {
  const auto fail = [&](const std::string& why) {
    throw InvalidInput(str(printable_path(path), ": ", why), ExitCode::kStorage);
  };
  // Looked at before it is opened, since opening a device may do something.
  if (::stat(path.c_str(), &opened_) != 0) fail(str("cannot be read: ", std::strerror(errno)));
  if (S_ISDIR(opened_.st_mode)) fail("is a folder, expected a file");
  if (!S_ISREG(opened_.st_mode)) fail("is no regular file");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) fail(str("cannot be read: ", std::strerror(errno)));
  if (::fstat(fd, &opened_) != 0 || !S_ISREG(opened_.st_mode)) {
    ::close(fd);
    fail("is no regular file");
  }
  size_ = static_cast<std::size_t>(opened_.st_size);
  if (size_ > 0) {
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) {
      const std::string why = std::strerror(errno);
      ::close(fd);
      fail("cannot be mapped: " + why);
    }
    data_ = static_cast<const std::byte*>(mapped);
  }
  ::close(fd);
}

void MappedFile::require_unchanged() const {
  struct stat now {};
  const bool same = ::stat(path_.c_str(), &now) == 0 && now.st_dev == opened_.st_dev && now.st_ino == opened_.st_ino &&
                    now.st_size == opened_.st_size && now.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec;
  if (!same)
    throw InvalidInput(str(printable_path(path_), ": was changed or replaced while it was read; try again"),
                       ExitCode::kCorrupt);
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const std::string& path, std::int64_t most) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (static_cast<std::int64_t>(bytes.size()) > most)
    throw InvalidInput(str(printable_path(path), ": has ", bytes.size(), " bytes; at most ", most, " are read"),
                       ExitCode::kStorage);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sextant
