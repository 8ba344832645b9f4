#include "cli/launch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace sextant::cli {

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

  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // Ctrl-C reaches the ranks through mpirun; this process waits for them to end in good order.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  const pid_t child = ::fork();
  if (child < 0) throw InvalidInput(str("mpirun cannot be started: ", std::strerror(errno)), ExitCode::kDoesNotFit);
  constexpr int kNotFound = 127;
  if (child == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    ::execvp("mpirun", arguments.data());
    ::_exit(kNotFound);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound)
    throw InvalidInput("mpirun is not installed; apt-get install openmpi-bin, or leave out --backend mpi",
                       ExitCode::kUsage);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace sextant::cli
