#include "sextant/runtime/comm/board.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "sextant/base/str.h"

namespace sextant {

std::string_view name_of(Cause cause) {
  constexpr std::string_view kNames[] = {"none",  "missing", "order", "kind",    "count",
                                         "dtype", "root",    "dead",  "stopped", "stuck"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {"starting",  "reading weights", "reading data", "computing",
                                         "reporting", "saving",          "at its end"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string_view name_of(What what) {
  constexpr std::string_view kNames[] = {"all_reduce", "all_reduce_max", "reduce_scatter", "all_gather", "all_to_all",
                                         "broadcast",  "barrier",        "send",           "recv"};
  return kNames[static_cast<std::size_t>(what)];
}

Site::Site(int line, const char* file) {
  const std::string_view path(file);
  const std::size_t slash = path.rfind('/');
  const std::string label = str(slash == std::string_view::npos ? path : path.substr(slash + 1), ":", line);
  label.copy(text_, sizeof text_ - 1);
}
Site::Site(std::string_view label) { label.copy(text_, sizeof text_ - 1); }

std::string describe(const Fingerprint& p) {
  std::string out(name_of(p.what));
  if (p.what != What::kBarrier && p.what != What::kAllToAll) out += str("(", p.count, " x ", name_of(p.dtype));
  if (p.what == What::kAllToAll) out += str("(", name_of(p.dtype));
  if (p.what == What::kBroadcast || p.what == What::kRecv) out += str(" from ", p.root);
  if (p.what == What::kSend) out += str(" to ", p.root);
  if (p.what != What::kBarrier) out += ")";
  return out + str(" at ", p.site);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Futexes, because they work between processes; std::atomic::wait may not.
void ring(Status& status) {
  status.bell.fetch_add(1);
  if (status.sleeping.load() != 0)
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&status.bell), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void sleep_until_rung(Status& status, std::uint32_t heard, Seconds most) {
  const auto whole = static_cast<std::int64_t>(most.value * 1e9);
  const timespec time{whole / 1'000'000'000, whole % 1'000'000'000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&status.bell), FUTEX_WAIT, heard, &time, nullptr, 0);
}

}  // namespace sextant
