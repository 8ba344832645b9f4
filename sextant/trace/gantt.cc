#include "sextant/trace/gantt.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <sstream>

#include "sextant/trace/xml.h"

namespace sextant {
namespace {

struct Look {
  char letter;  // without colour
  char fill;
  const char* ansi[2];  // by the parity of the chunk: background and text
  const char* svg[2];
};
constexpr Look look_of(EventKind kind) {
  switch (kind) {
    case EventKind::kForward:
      return {'F', '-', {"\033[48;5;25;38;5;231m", "\033[48;5;75;38;5;16m"}, {"#2f6db5", "#8bbcec"}};
    case EventKind::kBackward:
      return {'B', '=', {"\033[48;5;28;38;5;231m", "\033[48;5;114;38;5;16m"}, {"#2f8f4e", "#92d3a4"}};
    case EventKind::kInputGradient:
      return {'I', ':', {"\033[48;5;30;38;5;231m", "\033[48;5;80;38;5;16m"}, {"#1f8a8a", "#86d0cf"}};
    case EventKind::kWeightGradient:
      return {'W', '.', {"\033[48;5;178;38;5;16m", "\033[48;5;229;38;5;16m"}, {"#d8a531", "#f3dc9a"}};
    default:
      return {'?', '?', {"", ""}, {"#888888", "#bbbbbb"}};
  }
}
constexpr const char* kPlain = "\033[0m";

bool is_action(const Event& e) { return e.microbatch >= 0 && e.stream == Stream::kCompute; }

struct Rows {
  std::vector<std::vector<const Event*>> by_rank;
  double end = 0;
};
Rows rows_of(const Timeline& timeline) {
  Rows rows;
  for (const Event& e : timeline.events) {
    if (!is_action(e)) continue;
    if (static_cast<int>(rows.by_rank.size()) <= e.rank) rows.by_rank.resize(static_cast<std::size_t>(e.rank) + 1);
    rows.by_rank[static_cast<std::size_t>(e.rank)].push_back(&e);
    rows.end = std::max(rows.end, e.end.value);
  }
  return rows;
}

std::string rank_name(std::size_t rank, std::size_t count) {
  std::string number = std::to_string(rank);
  const std::size_t width = std::to_string(count > 0 ? count - 1 : 0).size();
  return "r" + number + std::string(width - number.size() + 1, ' ');
}

std::string number(double value) {
  std::ostringstream out;
  out << std::setprecision(6) << value;
  return out.str();
}

// A round number of time units that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(std::max(least, 1e-300))));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

}  // namespace

std::string gantt_text(const Timeline& timeline, const GanttOptions& options) {
  const Rows rows = rows_of(timeline);
  std::string out;
  if (rows.by_rank.empty() || rows.end <= 0) return out;
  const std::size_t name_width = rank_name(0, rows.by_rank.size()).size();
  const int cells = std::max(10, options.columns - static_cast<int>(name_width));
  const double per_cell = rows.end / cells;
  bool kinds[7] = {};
  for (std::size_t r = 0; r < rows.by_rank.size(); ++r) {
    out += rank_name(r, rows.by_rank.size());
    std::string row;
    std::size_t next = 0;
    const auto& events = rows.by_rank[r];
    for (int c = 0; c < cells;) {
      // What the middle of the cell lies in.
      const double middle = (c + 0.5) * per_cell;
      while (next < events.size() && events[next]->end.value <= middle) ++next;
      const Event* e = next < events.size() && events[next]->start.value <= middle ? events[next] : nullptr;
      int end = c + 1;
      const auto covers = [&](int cell) {
        const double m = (cell + 0.5) * per_cell;
        return e ? e->end.value > m : next >= events.size() || events[next]->start.value > m;
      };
      while (end < cells && covers(end)) ++end;
      const auto width = static_cast<std::size_t>(end - c);
      if (!e) {
        row.append(width, ' ');
      } else {
        kinds[static_cast<std::size_t>(e->kind)] = true;
        const Look look = look_of(e->kind);
        const int odd = e->chunk % 2;
        const std::string microbatch = std::to_string(e->microbatch);
        std::string text = options.colour
                               ? microbatch
                               : std::string(1, odd ? static_cast<char>(look.letter | 0x20) : look.letter) + microbatch;
        if (text.size() > width) text = options.colour ? "" : text.substr(0, 1);
        text.append(width - text.size(), options.colour ? ' ' : look.fill);
        row += options.colour ? look.ansi[odd] + text + kPlain : text;
      }
      c = end;
    }
    if (!options.colour)
      while (!row.empty() && row.back() == ' ') row.pop_back();
    out += row + "\n";
  }
  // The axis: a tick at round times.
  const double step = round_step(12 * per_cell);
  std::string axis(name_width, ' ');
  for (double t = 0; t <= rows.end + 1e-9 * rows.end; t += step) {
    const std::string tick = "|" + number(t);
    const auto at = name_width + static_cast<std::size_t>(std::llround(t / per_cell));
    if (at + tick.size() > name_width + static_cast<std::size_t>(cells)) break;
    axis.resize(at, ' ');
    axis += tick;
  }
  out += axis + "\n";
  if (options.colour) {
    out += std::string(name_width, ' ');
    for (const auto& [kind, name] : {std::pair{EventKind::kForward, "forward"},
                                     {EventKind::kBackward, "backward"},
                                     {EventKind::kInputGradient, "input gradient"},
                                     {EventKind::kWeightGradient, "weight gradient"}})
      if (kinds[static_cast<std::size_t>(kind)])
        out += std::string(look_of(kind).ansi[0]) + " " + name + " " + kPlain + " ";
    out += "\n";
  }
  return out;
}

std::string gantt_svg(const Timeline& timeline, const std::string& title) {
  const Rows rows = rows_of(timeline);
  constexpr double kLeft = 48, kTop = 44, kRow = 30, kGap = 6, kWidth = 1400, kCharacter = 7;
  const double right = kLeft + kWidth, bottom = kTop + kRow * static_cast<double>(rows.by_rank.size());
  const double scale = rows.end > 0 ? kWidth / rows.end : 1;
  std::ostringstream out;
  out << std::fixed << std::setprecision(2);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << right + 20 << " " << bottom + 56
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"" << kLeft
      << "\" y=\"24\" font-size=\"15\" fill=\"#222222\">" << xml_escaped(title) << "</text>\n";
  const double step = round_step(rows.end / 20);
  for (double t = 0; rows.end > 0 && t <= rows.end * (1 + 1e-9); t += step)
    out << "<line x1=\"" << kLeft + t * scale << "\" x2=\"" << kLeft + t * scale << "\" y1=\"" << kTop - 4 << "\" y2=\""
        << bottom + 4 << "\" stroke=\"#e3e3e3\"/><text x=\"" << kLeft + t * scale << "\" y=\"" << bottom + 18
        << "\" text-anchor=\"middle\" fill=\"#666666\">" << number(t) << "</text>\n";
  bool kinds[7] = {};
  for (std::size_t r = 0; r < rows.by_rank.size(); ++r) {
    const double y = kTop + kRow * static_cast<double>(r);
    out << "<text x=\"" << kLeft - 8 << "\" y=\"" << y + 16 << "\" text-anchor=\"end\" fill=\"#222222\">r" << r
        << "</text>\n";
    for (const Event* e : rows.by_rank[r]) {
      const Look look = look_of(e->kind);
      kinds[static_cast<std::size_t>(e->kind)] = true;
      const int odd = e->chunk % 2;
      const double x = kLeft + e->start.value * scale, width = (e->end.value - e->start.value) * scale;
      out << "<g><title>" << xml_escaped(e->what) << ": " << number(e->start.value) << " to " << number(e->end.value)
          << "</title><rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << std::max(0.0, width - 0.6)
          << "\" height=\"" << kRow - kGap << "\" rx=\"2\" fill=\"" << look.svg[odd] << "\"/>";
      // The whole name if it fits, else the microbatch.
      const std::string shorter = std::to_string(e->microbatch);
      const std::string& text = width > kCharacter * static_cast<double>(e->what.size()) + 2 ? e->what : shorter;
      if (width > kCharacter * static_cast<double>(text.size()))
        out << "<text x=\"" << x + width / 2 << "\" y=\"" << y + 16
            << "\" text-anchor=\"middle\" font-size=\"11\" fill=\""
            << (odd || e->kind == EventKind::kWeightGradient ? "#1c1c1c" : "#ffffff") << "\">" << xml_escaped(text)
            << "</text>";
      out << "</g>\n";
    }
  }
  double x = kLeft;
  for (const auto& [kind, name] : {std::pair{EventKind::kForward, "forward"},
                                   {EventKind::kBackward, "backward"},
                                   {EventKind::kInputGradient, "input gradient"},
                                   {EventKind::kWeightGradient, "weight gradient"}}) {
    if (!kinds[static_cast<std::size_t>(kind)]) continue;
    out << "<rect x=\"" << x << "\" y=\"" << bottom + 32 << "\" width=\"14\" height=\"14\" rx=\"2\" fill=\""
        << look_of(kind).svg[0] << "\"/><text x=\"" << x + 20 << "\" y=\"" << bottom + 44 << "\" fill=\"#222222\">"
        << name << "</text>\n";
    x += 130;
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace sextant
