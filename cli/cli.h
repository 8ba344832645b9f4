#pragma once
// What the subcommands share: arguments, help, output.
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/errors.h"
#include "sextant/base/value.h"
#include "sextant/runtime/train/run_config.h"

namespace sextant::cli {

struct Option {
  std::string name;   ///< "--ranks"
  std::string value;  ///< "N" in the help; "" for a flag; "[=FILE]" for a flag that may carry a value
  std::string help;
};
struct Command {
  std::string name, arguments, summary;
  std::vector<Option> options;
  std::string details;  ///< examples and notes behind the options
  int (*run)(const class Arguments&) = nullptr;
  bool is_of_all_ranks = false;  ///< of a job of many processes all run it; any other command needs one of them
};

/// Parsed arguments of a command.
class Arguments {
 public:
  /// Throws InvalidInput (usage) on an unknown option, with the nearest name, or a missing value.
  Arguments(const Command& command, const std::vector<std::string>& words);
  bool has(const std::string& name) const;
  std::optional<std::string> value(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise, std::int64_t least, std::int64_t most) const;
  double number(const std::string& name, double otherwise, double least, double most) const;
  /// Throws InvalidInput (usage) if there are more words than the command takes.
  void at_most_words(std::size_t most) const;
  /// The command and its arguments again, but for these options.
  std::vector<std::string> without(const std::vector<std::string>& names) const;
  /// Words that are no options.
  const std::vector<std::string>& words() const { return words_; }
  /// The one file of the command and the overrides behind it. Throws InvalidInput (usage) if there is none.
  std::string file(const std::string& what) const;
  std::vector<Override> overrides() const;

 private:
  const Command& command_;
  std::vector<std::pair<std::string, std::string>> options_;
  std::vector<std::string> words_;
};

std::string help(const Command& command);
/// Prints `value` where --json asks for it: standard output, or the file of --json=FILE.
void write_json(const Arguments& arguments, const Value& value);
/// Writes `text` where an option that names a file asks for it, or to standard output if it stands alone.
void write_output(const Arguments& arguments, const std::string& option, const std::string& text);
/// Throws InvalidInput if the file of --json=FILE cannot be written, or is one of the command's `others`.
void require_json(const Arguments& arguments, const std::vector<std::string>& others);
/// The same for several options, whose files must differ too; at most one may ask for standard output.
void require_outputs(const Arguments& arguments, const std::vector<std::string>& options,
                     std::vector<std::string> others);

/// Says an error on standard error; returns the exit code, which start_mpirun gets too.
int report_error(const std::exception_ptr& error);

extern const Command plan, train, generate, data, check, verify, schedule, simulate, explain, validate, calibrate,
    compare, presets, doctor;

}  // namespace sextant::cli
