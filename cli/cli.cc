#include "cli/cli.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>

#include "sextant/base/atomic_file.h"

namespace sextant::cli {

Arguments::Arguments(const Command& command, const std::vector<std::string>& words) : command_(command) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.rfind("--", 0) != 0) {
      words_.push_back(word);
      continue;
    }
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = nullptr;
    std::vector<std::string> names;
    for (const Option& o : command.options) {
      names.push_back(o.name);
      if (o.name == name) option = &o;
    }
    if (!option) {
      const std::string near = nearest(name, names);
      throw InvalidInput(
          str("sextant ", command.name, ": unknown option ", printable(name),
              near.empty() ? "" : "; did you mean " + near + "?", " ('sextant ", command.name, " --help' lists them)"),
          ExitCode::kUsage);
    }
    for (const auto& [given, text] : options_)
      if (given == name)
        throw InvalidInput(str("sextant ", command.name, ": ", name, " stands twice"), ExitCode::kUsage);
    const bool optional = option->value.starts_with('[');
    if (equals != std::string::npos) {
      if (option->value.empty())
        throw InvalidInput(str("sextant ", command.name, ": ", name, " takes no value"), ExitCode::kUsage);
      options_.emplace_back(name, word.substr(equals + 1));
    } else if (option->value.empty() || optional) {
      options_.emplace_back(name, "");
    } else if (i + 1 < words.size()) {
      options_.emplace_back(name, words[++i]);
    } else {
      throw InvalidInput(str("sextant ", command.name, ": ", name, " needs a value: ", name, " ", option->value),
                         ExitCode::kUsage);
    }
  }
}

std::vector<std::string> Arguments::without(const std::vector<std::string>& names) const {
  std::vector<std::string> out{command_.name};
  for (const auto& [name, text] : options_)
    if (std::find(names.begin(), names.end(), name) == names.end())
      out.push_back(text.empty() ? name : name + "=" + text);
  out.insert(out.end(), words_.begin(), words_.end());
  return out;
}

bool Arguments::has(const std::string& name) const { return value(name).has_value(); }

std::optional<std::string> Arguments::value(const std::string& name) const {
  std::optional<std::string> found;
  for (const auto& [option, text] : options_)
    if (option == name) found = text;
  return found;
}

void Arguments::at_most_words(std::size_t most) const {
  if (words_.size() > most)
    throw InvalidInput(str("sextant ", command_.name, ": unexpected argument ", printable(words_[most], 60),
                           ": sextant ", command_.name, " ", command_.arguments),
                       ExitCode::kUsage);
}

std::int64_t Arguments::integer(const std::string& name, std::int64_t otherwise, std::int64_t least,
                                std::int64_t most) const {
  const auto text = value(name);
  if (!text) return otherwise;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || number < least || number > most)
    throw InvalidInput(str("sextant ", command_.name, ": ", name, ": found '", printable(*text, 40),
                           "', expected an integer from ", least, " to ", most),
                       ExitCode::kUsage);
  return number;
}

double Arguments::number(const std::string& name, double otherwise, double least, double most) const {
  const auto text = value(name);
  if (!text) return otherwise;
  double number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || !(number >= least && number <= most))
    throw InvalidInput(str("sextant ", command_.name, ": ", name, ": found '", printable(*text, 40),
                           "', expected a number from ", least, " to ", most),
                       ExitCode::kUsage);
  return number;
}

std::string Arguments::file(const std::string& what) const {
  if (words_.empty())
    throw InvalidInput(
        str("sextant ", command_.name, ": ", what, " is missing: sextant ", command_.name, " ", command_.arguments),
        ExitCode::kUsage);
  return words_[0];
}

std::vector<Override> Arguments::overrides() const {
  std::vector<Override> out;
  for (std::size_t i = 1; i < words_.size(); ++i) out.push_back(parse_override(words_[i]));
  return out;
}

std::string help(const Command& command) {
  std::string out = str("sextant ", command.name, " ", command.arguments, "\n  ", command.summary, "\n");
  if (!command.options.empty()) out += "\nOptions:\n";
  for (const Option& o : command.options) {
    std::string left = "  " + o.name + (o.value.empty() ? "" : o.value[0] == '[' ? o.value : " " + o.value);
    if (left.size() < 24) left.resize(24, ' ');
    out += left + "  " + o.help + "\n";
  }
  if (!command.details.empty()) out += "\n" + command.details;
  return out;
}

void write_output(const Arguments& arguments, const std::string& option, const std::string& text) {
  const auto target = arguments.value(option);
  if (!target) return;
  if (target->empty())
    std::cout << text << std::flush;
  else
    write_file(*target, text);
}

void write_json(const Arguments& arguments, const Value& value) {
  if (arguments.has("--json")) write_output(arguments, "--json", to_json(value, true) + "\n");
}

void require_json(const Arguments& arguments, const std::vector<std::string>& others) {
  require_outputs(arguments, {"--json"}, others);
}

void require_outputs(const Arguments& arguments, const std::vector<std::string>& options,
                     std::vector<std::string> others) {
  std::string on_standard_output;
  for (const std::string& option : options) {
    const auto target = arguments.value(option);
    if (!target) continue;
    if (target->empty()) {
      if (!on_standard_output.empty())
        throw InvalidInput(
            str(on_standard_output, " and ", option, " both go to standard output; give one a file: ", option, "=FILE"),
            ExitCode::kUsage);
      on_standard_output = option;
      continue;
    }
    require_apart(*target, option, others);
    require_writable(*target, option);
    others.push_back(*target);
  }
}

}  // namespace sextant::cli
