#include "cli/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <sstream>
#include <utility>

namespace sextant::cli {
namespace {

// A file without a name that the launcher holds, and ranks of its machine reach through /proc as long as it lives. They
// append lines to it: "up" once they hear signals; "code N" from the rank that has the last word, since mpirun's own
// code is that of a rank which a signal killed.
constexpr const char* kNotebook = "SEXTANT_LAUNCHER";
bool launcher_was_here = false;

void note_for_launcher(const std::string& line) {
  const char* path = std::getenv(kNotebook);
  if (!path) return;
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return;  // of another machine
  launcher_was_here = true;
  static_cast<void>(!::write(fd, line.data(), line.size()));
  ::close(fd);
}

struct Notes {
  int up = 0;
  std::optional<int> code;
};
Notes read_notes(int fd) {
  std::string text(1 << 16, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::pread(fd, text.data(), text.size(), 0))));
  Notes notes;
  std::istringstream lines(text);
  for (std::string word; lines >> word;) {
    if (word == "up") ++notes.up;
    if (int code = 0; word == "code" && lines >> code) notes.code = code;
  }
  return notes;
}

volatile std::sig_atomic_t wishes = 0;  // of Ctrl-C and its like
void on_wish(int) { wishes = wishes + 1; }

/// Hands on what mpirun writes. Who reads it may go: then the rest is dropped, and the run goes on.
class Relay {
 public:
  explicit Relay(int to) : to_(to) {
    if (::pipe2(pipe_.data(), O_CLOEXEC) != 0)
      throw InvalidInput(str("mpirun cannot be started: ", std::strerror(errno)), ExitCode::kDoesNotFit);
  }
  ~Relay() { close_input(), ::close(pipe_[0]); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  int input() const { return pipe_[1]; }
  void close_input() {
    if (pipe_[1] >= 0) ::close(std::exchange(pipe_[1], -1));
  }
  bool is_over() const { return is_closed_ && held_.empty(); }
  bool lost_something() const { return lost_; }
  pollfd wanted() const {
    if (!held_.empty()) return {to_, POLLOUT, 0};
    return {is_closed_ ? -1 : pipe_[0], POLLIN, 0};
  }
  void serve(short seen) {
    if (seen == 0) return;
    if (!held_.empty()) {
      const ssize_t put = ::write(to_, held_.data(), held_.size());
      if (put < 0 && errno != EINTR && errno != EAGAIN) lost_ = true, held_.clear();
      if (put > 0) held_.erase(0, static_cast<std::size_t>(put));
      return;
    }
    std::array<char, PIPE_BUF> more;
    const ssize_t got = ::read(pipe_[0], more.data(), more.size());
    if (got == 0) is_closed_ = true;
    if (got > 0 && !lost_) held_.assign(more.data(), static_cast<std::size_t>(got));
  }

 private:
  int to_;
  std::array<int, 2> pipe_{-1, -1};
  std::string held_;
  bool is_closed_ = false, lost_ = false;
};

}  // namespace

bool is_ignored(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler == SIG_IGN;
}

Backend backend_of(const Arguments& a) {
  const auto name = a.value("--backend");
  const auto job = mpi_process();
  if (name && *name != "threads" && *name != "mpi")
    throw InvalidInput(str("--backend: found '", printable(*name, 40), "', known: threads, mpi"), ExitCode::kUsage);
  if (name && *name == "threads" && job && job->size > 1)
    throw InvalidInput(str("--backend threads: ", job->started_by, " has started ", job->size,
                           " processes, which would each train alone; leave out --backend, or ", job->started_by),
                       ExitCode::kUsage);
  return (name && *name == "mpi") || job ? Backend::kMpi : Backend::kThreads;
}

int start_mpirun(const Arguments& a, int ranks) {
  std::vector<std::string> words{"mpirun", "-n", str(ranks), "/proc/self/exe"};
  char self[4096] = {};
  if (::readlink("/proc/self/exe", self, sizeof self - 1) > 0) words.back() = self;
  for (const std::string& word : a.without({"--backend", "--ranks"})) words.push_back(word);
  std::string shown, settings;
  for (const MpiSetting& s : mpi_settings())
    if (!std::getenv(s.name)) {
      ::setenv(s.name, s.value, 0);
      settings += str("  ", s.name, "=", s.value, "   ", s.why, "\n");
    }
  for (const std::string& word : words) shown += (shown.empty() ? "" : " ") + word;
  std::cerr << "starting " << printable(shown, 4000) << "\n";
  if (!settings.empty()) std::cerr << "with what Open MPI needs for that (a value of yours is kept):\n" << settings;
  std::cerr << std::flush;

  const int notebook = ::memfd_create("sextant-launcher", MFD_CLOEXEC);
  ::setenv(kNotebook, str("/proc/", ::getpid(), "/fd/", notebook).c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Relay out(STDOUT_FILENO), err(STDERR_FILENO);
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(signal)) std::signal(signal, on_wish);
  const pid_t self_id = ::getpid(), child = ::fork();
  if (child < 0) throw InvalidInput(str("mpirun cannot be started: ", std::strerror(errno)), ExitCode::kDoesNotFit);
  constexpr int kNotFound = 127;
  if (child == 0) {
    // A process group of its own: Ctrl-C goes to this process, which asks the ranks to end behind their step. So mpirun
    // may not read from the terminal.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != self_id) ::_exit(kNotFound);
    std::signal(SIGPIPE, SIG_DFL);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out.input(), STDOUT_FILENO);
    ::dup2(err.input(), STDERR_FILENO);
    ::execvp("mpirun", arguments.data());
    ::_exit(kNotFound);
  }
  out.close_input(), err.close_input();
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto start = now();
  auto end = start;
  int status = 0, passed_on = 0;
  bool is_running = true;
  // What a rank left behind that no longer belongs to mpirun may hold the pipes open: not waited for.
  while (is_running || (!(out.is_over() && err.is_over()) && now() < end + std::chrono::seconds(1))) {
    std::array<pollfd, 2> fds{out.wanted(), err.wanted()};
    if (::poll(fds.data(), fds.size(), 50) > 0) out.serve(fds[0].revents), err.serve(fds[1].revents);
    if (!is_running) continue;
    if (::waitpid(child, &status, WNOHANG) == child) {
      is_running = false, end = now();
      continue;
    }
    // The first wish asks for an end behind the step that runs: mpirun hands this signal to the ranks and leaves them
    // the time. It waits until they hear it. The second ends at once.
    if (wishes >= 1 && passed_on == 0 && (read_notes(notebook).up >= ranks || now() > start + std::chrono::seconds(10)))
      ::kill(child, SIGUSR1), passed_on = 1;
    if (wishes >= 2 && passed_on < 2) ::kill(child, SIGTERM), passed_on = 2;
  }
  const Notes notes = read_notes(notebook);
  ::close(notebook);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == kNotFound && notes.up == 0)
    throw InvalidInput("mpirun is not installed; apt-get install openmpi-bin, or leave out --backend mpi",
                       ExitCode::kUsage);
  if (notes.code) return *notes.code;
  if (code != 0 && wishes > 0)
    throw InvalidInput("interrupted at once; the weights of this run are not saved", ExitCode::kInterrupted);
  if (code != 0)
    throw InvalidInput(str("mpirun ", WIFEXITED(status) ? "ended with" : "was killed, as if by", " code ", code,
                           code > 128 ? str(" (signal ", code - 128, ")") : "",
                           notes.up < ranks ? ", before its ranks had started; 'sextant doctor' looks at what it needs"
                                            : ", and no rank could say why"),
                       ExitCode::kHang);
  if (out.lost_something()) throw InvalidInput("standard output cannot be written", ExitCode::kStorage);
  return 0;
}

void tell_launcher_up() { note_for_launcher("up\n"); }
void tell_launcher_code(int code) { note_for_launcher(str("code ", code, "\n")); }
bool launcher_is_gone() { return launcher_was_here && ::access(std::getenv(kNotebook), F_OK) != 0; }

}  // namespace sextant::cli
