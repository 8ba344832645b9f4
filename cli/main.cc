// The `sextant` program: one file per subcommand.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>

#include "cli/cli.h"
#include "cli/launch.h"
#include "sextant/runtime/comm/communicator.h"

namespace sextant::cli {
namespace {

const Command* const kCommands[] = {&plan,    &train,    &generate, &data,     &check,     &verify,  &schedule,
                                    &compare, &simulate, &explain,  &validate, &calibrate, &presets, &doctor};

std::string overview() {
  std::string out =
      "sextant: plans, simulates and runs the training of language models, as one program.\n\n"
      "Commands ('sextant COMMAND --help' has options and examples):\n";
  for (const Command* c : kCommands) {
    std::string name = "  " + c->name;
    name.resize(12, ' ');
    out += name + c->summary + "\n";
  }
  return out;
}

bool is_of_all_ranks(const std::vector<std::string>& words) {
  for (const Command* c : kCommands)
    if (!words.empty() && c->name == words[0]) return c->is_of_all_ranks;
  return false;
}

int run(const std::vector<std::string>& words) {
  if (words.empty())
    throw InvalidInput("sextant: a command is missing ('sextant --help' lists them)", ExitCode::kUsage);
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::cout << overview();
    return 0;
  }
  if (words[0] == "--version") {
    std::cout << "sextant " << SEXTANT_VERSION << "\n";
    return 0;
  }
  std::vector<std::string> names;
  for (const Command* c : kCommands) {
    names.push_back(c->name);
    if (c->name != words[0]) continue;
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    for (const std::string& word : rest)
      if (word == "--help" || word == "-h") return std::cout << help(*c), 0;
    return c->run(Arguments(*c, rest));
  }
  const std::string near = nearest(words[0], names);
  throw InvalidInput(str("sextant: unknown command ", printable(words[0], 40),
                         near.empty() ? "" : "; did you mean " + near + "?", " ('sextant --help' lists them)"),
                     ExitCode::kUsage);
}

}  // namespace
}  // namespace sextant::cli

namespace {

// A mapped file that another program cuts off under us ends in this signal; all that is safe here is to say so and go.
extern "C" void on_bus_error(int) {
  constexpr char kText[] =
      "error: a file that is read (data or weights) was cut off while it was read; do not change it during a run\n";
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (said.test_and_set()) ::pause();  // another thread says it
  static_cast<void>(!::write(STDERR_FILENO, kText, sizeof kText - 1));
  ::_exit(static_cast<int>(sextant::ExitCode::kCorrupt));
}

// Standard streams that the caller closed: their numbers must not go to files that we open.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
}

}  // namespace

int sextant::cli::report_error(const std::exception_ptr& error) {
  ExitCode code = ExitCode::kInternal;
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailed& e) {
    return static_cast<int>(e.exit_code);  // another rank says why
  } catch (const InvalidInput& e) {
    std::cerr << "error: " << e.what() << "\n";
    code = e.exit_code;
  } catch (const CommError& e) {
    std::cerr << "error: " << e.what() << "\n";
    code = ExitCode::kHang;
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory; use a smaller plan.microbatch_size, workload.sequence or model\n";
    code = ExitCode::kDoesNotFit;
  } catch (const std::exception& e) {
    std::cerr << "error: this is a bug in sextant, please report it: " << e.what() << "\n";
  }
  tell_launcher_code(static_cast<int>(code));
  return static_cast<int>(code);
}

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write()
  std::signal(SIGBUS, on_bus_error);
  const auto job = sextant::mpi_process();
  const std::vector<std::string> words{argv + 1, argv + argc};
  if (job && job->rank > 0 && !sextant::cli::is_of_all_ranks(words)) return 0;
  try {
    const int code = sextant::cli::run(words);
    std::cout.flush();
    if (!std::cout) throw sextant::InvalidInput("standard output cannot be written", sextant::ExitCode::kStorage);
    if (code != 0) sextant::cli::tell_launcher_code(code);
    return code;
  } catch (...) {
    return sextant::cli::report_error(std::current_exception());
  }
}
