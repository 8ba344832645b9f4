// The `sextant` program: one file per subcommand.
#include <csignal>
#include <cstring>
#include <iostream>

#include "cli/cli.h"
#include "sextant/runtime/comm/communicator.h"

namespace sextant::cli {
namespace {

const Command* const kCommands[] = {&train, &generate, &data, &check, &presets};

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

int run(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::cout << overview();
    return words.empty() ? static_cast<int>(ExitCode::kUsage) : 0;
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
  throw InvalidInput(str("sextant: unknown command ", printable(words[0], 40), near.empty() ? "" : "; did you mean " + near + "?", " ('sextant --help' lists them)"), ExitCode::kUsage);
}

}  // namespace
}  // namespace sextant::cli

int main(int argc, char** argv) {
  using sextant::ExitCode;
  std::signal(SIGPIPE, SIG_DFL);
  try {
    return sextant::cli::run({argv + 1, argv + argc});
  } catch (const sextant::InvalidInput& e) {
    std::cerr << "error: " << e.what() << "\n";
    return static_cast<int>(e.exit_code);
  } catch (const sextant::CommError& e) {
    std::cerr << "error: " << e.what() << "\n";
    return static_cast<int>(ExitCode::kHang);
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory; use a smaller plan.microbatch_size, workload.sequence or model\n";
    return static_cast<int>(ExitCode::kDoesNotFit);
  } catch (const std::exception& e) {
    std::cerr << "error: this is a bug in sextant, please report it: " << e.what() << "\n";
    return static_cast<int>(ExitCode::kInternal);
  }
}
