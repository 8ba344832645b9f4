#include "sextant/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sextant/base/errors.h"

namespace sextant {

MappedFile::MappedFile(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    throw InvalidInput(str(printable(path), ": ", why), ExitCode::kStorage);
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(str("cannot be read: ", std::strerror(errno)));
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(known && S_ISDIR(info.st_mode) ? "is a folder, expected a file" : "is no regular file");
  }
  size_ = static_cast<std::size_t>(info.st_size);
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

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const std::string& path, std::int64_t most) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (static_cast<std::int64_t>(bytes.size()) > most)
    throw InvalidInput(str(printable(path), ": has ", bytes.size(), " bytes; at most ", most, " are read"),
                       ExitCode::kStorage);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sextant
