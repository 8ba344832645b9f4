#include "cli/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace sextant::cli {
namespace {

constexpr const char* kExitCodeFile = "SEXTANT_EXIT_CODE_FILE";
pid_t child = -1;

// The first Ctrl-C asks for an end behind the step that runs: mpirun hands this signal to the ranks and leaves them the
// time. The second ends at once.
void pass_on(int signal) {
  ::kill(child, SIGUSR1);
  std::signal(signal, [](int) { ::kill(child, SIGTERM); });
}

}  // namespace

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

  // The rank that has the last word writes the exit code here: mpirun's own is that of a rank which a signal killed.
  char code_file[] = "/tmp/sextant-exit-XXXXXX";
  const int code_fd = ::mkstemp(code_file);
  if (code_fd >= 0) ::setenv(kExitCodeFile, code_file, 1);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  child = ::fork();
  if (child < 0) throw InvalidInput(str("mpirun cannot be started: ", std::strerror(errno)), ExitCode::kDoesNotFit);
  constexpr int kNotFound = 127;
  if (child == 0) {
    // A process group of its own: Ctrl-C goes to this process, which asks the ranks to end behind their step. So mpirun
    // may not read from the terminal.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::execvp("mpirun", arguments.data());
    ::_exit(kNotFound);
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, pass_on);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code_fd >= 0) {
    char text[8] = {};
    if (::pread(code_fd, text, sizeof text - 1, 0) > 0) code = std::atoi(text);
    ::close(code_fd);
    ::unlink(code_file);
  }
  if (code == kNotFound)
    throw InvalidInput("mpirun is not installed; apt-get install openmpi-bin, or leave out --backend mpi",
                       ExitCode::kUsage);
  return code;
}

void write_exit_code(int code) {
  if (const char* file = std::getenv(kExitCodeFile)) {
    const int fd = ::open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);
    const std::string text = str(code);
    if (fd >= 0) static_cast<void>(!::write(fd, text.data(), text.size())), ::close(fd);
  }
}

}  // namespace sextant::cli
