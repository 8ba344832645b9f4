#include "sextant/base/value.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sextant/base/errors.h"

namespace sextant {

const Value* Value::find(std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&data))
    for (const Member& member : *object)
      if (member.key == key) return &member.value;
  return nullptr;
}

Value& Value::set(std::string_view key, Value value) {
  if (std::holds_alternative<std::nullptr_t>(data)) data = Object{};
  auto& object = std::get<Object>(data);
  for (Member& member : object)
    if (member.key == key) return member.value = std::move(value);
  object.push_back({std::string(key), std::move(value)});
  return object.back().value;
}

std::string read_file(const std::string& path, std::int64_t most) {
  const auto fail = [&](const std::string& why, ExitCode code = ExitCode::kStorage) {
    throw InvalidInput(str(printable(path), ": ", why), code);
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // non-blocking: a FIFO must not hang us
  if (fd < 0) fail(str("cannot be read: ", std::strerror(errno)));
  struct stat info {};
  std::string text;
  std::string why;
  if (::fstat(fd, &info) != 0) {
    why = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    why = S_ISDIR(info.st_mode) ? "is a folder, expected a file" : "is no regular file";
  } else if (info.st_size > most) {
    why = str("has ", info.st_size, " bytes; at most ", most, " are read");
  } else {
    text.resize(static_cast<std::size_t>(info.st_size));
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t got = ::read(fd, text.data() + done, text.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) why = str("cannot be read: ", std::strerror(errno));
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    text.resize(done);
  }
  ::close(fd);
  if (!why.empty()) fail(why);
  return text;
}

}  // namespace sextant
