#include <algorithm>
#include <charconv>

#include "sextant/base/errors.h"
#include "sextant/schedule/schedule.h"

namespace sextant {
namespace {

constexpr std::size_t kMostFaults = 20;
constexpr int kMostStages = 1 << 14, kMostMicrobatches = 1 << 20;
constexpr std::string_view kOverlap = "OVERLAP_F_B";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

struct Cell {
  std::string_view text;
  std::string where;  // file:line: cell

  [[noreturn]] void fail(const std::string& why) const {
    throw InvalidInput(str(where, ": found ", printable(text, 60), ": ", why));
  }
};

// "2F3" or "2'F3".
Action parse_action(std::string_view text, const Cell& cell) {
  Action action;
  const auto number = [&](int most, const char* what) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value < 0)
      cell.fail(str("expected ", what, ", as in 2F3 (stage 2, forward, microbatch 3)"));
    if (value > most) cell.fail(str(what, " is at most ", most));
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
  };
  action.stage = static_cast<std::int16_t>(number(kMostStages - 1, "a stage"));
  if (!text.empty() && text.front() == '\'') action.mirrored = true, text.remove_prefix(1);
  const std::size_t digits = std::min(text.find_first_of("0123456789"), text.size());
  const std::string_view letters = text.substr(0, digits);
  const std::size_t kind = std::string_view("FIWB").find(letters.empty() ? '?' : letters[0]);
  if (letters.size() != 1 || kind == std::string_view::npos)
    cell.fail(
        letters.size() > 3
            ? "only F, I, W and B are read: messages, gathers and reductions are derived; write the compute-only form"
            : "expected F, I, W or B behind the stage");
  action.kind = static_cast<ActionKind>(kind);
  text.remove_prefix(digits);
  action.microbatch = number(kMostMicrobatches - 1, "a microbatch");
  if (!text.empty()) cell.fail(str("text behind the action: ", printable(text, 20)));
  return action;
}

void parse_cell(const Cell& cell, std::vector<Action>& out) {
  if (cell.text.front() != '(') return out.push_back(parse_action(cell.text, cell));
  const std::size_t semicolon = cell.text.find(';'), end = cell.text.find(')');
  if (semicolon == std::string_view::npos || end == std::string_view::npos || semicolon > end ||
      cell.text.substr(end + 1) != kOverlap)
    cell.fail(str("expected a pair as in (0F3;3B1)", kOverlap));
  const std::int32_t pair = static_cast<std::int32_t>(out.size());
  for (const std::string_view part :
       {cell.text.substr(1, semicolon - 1), cell.text.substr(semicolon + 1, end - semicolon - 1)}) {
    out.push_back(parse_action(trimmed(part), cell));
    out.back().pair = pair;
  }
}

}  // namespace

Schedule parse_csv(std::string_view text, const std::string& file) {
  const std::string name = printable_path(file);
  Schedule out{.kind = "csv"};
  int stages = 0, microbatches = 0;
  std::size_t num_actions = 0;
  for (std::size_t at = 0, line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = trimmed(text.substr(at, end - at));
    at = end + 1;
    if (row.empty() && text.find_first_not_of(" \t\r\n", std::min(at, text.size())) == std::string_view::npos) break;
    if (line > static_cast<std::size_t>(kMostStages))
      throw InvalidInput(str(name, ":", line, ": more than ", kMostStages, " rows; a row is a rank"));
    std::vector<Action>& actions = out.by_rank.emplace_back();
    int column = 0;
    for (std::size_t from = 0; from <= row.size();) {
      const std::size_t comma = std::min(row.find(',', from), row.size());
      const Cell cell{trimmed(row.substr(from, comma - from)), str(name, ":", line, ": cell ", ++column)};
      if (!cell.text.empty()) parse_cell(cell, actions);
      from = comma + 1;
    }
    num_actions += actions.size();
    for (const Action& a : actions) {
      stages = std::max(stages, a.stage + 1), microbatches = std::max(microbatches, a.microbatch + 1);
      out.is_mirrored |= a.mirrored;
    }
  }
  if (num_actions == 0) throw InvalidInput(str(name, ": has no actions; a row is a rank, a cell an action as 0F0"));
  out.num_ranks = static_cast<int>(out.by_rank.size());
  out.num_stages = stages;
  out.num_microbatches = out.is_mirrored ? 2 * microbatches : microbatches;
  // A slip of a digit must not make millions of missing actions.
  const std::int64_t least = std::int64_t{stages} * out.num_microbatches * 2;
  if (least > 4 * static_cast<std::int64_t>(num_actions) + 1000)
    throw InvalidInput(str(name, ": its greatest stage ", stages - 1, " and microbatch ", microbatches - 1, " make ",
                           least, " actions at least, but there are ", num_actions, "; is one of them a slip?"));
  if (const std::vector<ScheduleFault> found = faults(out); !found.empty()) {
    std::vector<std::string> lines;
    for (const ScheduleFault& fault : found) {
      if (lines.size() == kMostFaults) {
        lines.push_back(str("and ", found.size() - kMostFaults, " more"));
        break;
      }
      lines.push_back(str(name, ":", fault.rank + 1, ": rank ", fault.rank, ": ", fault.what));
    }
    throw InvalidInput(str(name, ": is no schedule of ", out.num_stages, " stages and ", out.num_microbatches,
                           " microbatches:\n  - ", join(lines, "\n  - ")));
  }
  return out;
}

std::string to_csv(const Schedule& schedule) {
  std::string out;
  for (const std::vector<Action>& actions : schedule.by_rank) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) out += ',';
      if (actions[i].pair >= 0 && i + 1 < actions.size() && actions[i + 1].pair == actions[i].pair) {
        out += "(" + to_string(actions[i]) + ";" + to_string(actions[i + 1]) + ")";
        out += kOverlap;
        ++i;
      } else {
        out += to_string(actions[i]);
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace sextant
