#pragma once
// Pictures of a timeline: a row for each rank, time from left to right.
#include <string>

#include "sextant/trace/timeline.h"

namespace sextant {

struct GanttOptions {
  int columns = 100;    ///< of the terminal
  bool colour = false;  ///< ANSI colours; without them passes are told apart by letters
};
/// The computing stream's actions in the terminal. In colour a cell is its pass, without it "F3--", "B3==", "I3::",
/// "W3.." (small letters: an odd chunk of the rank); empty where the rank does not compute.
std::string gantt_text(const Timeline& timeline, const GanttOptions& options);
/// The same as an SVG picture: what an action is stands in it where it fits, and in its tool tip.
std::string gantt_svg(const Timeline& timeline, const std::string& title);

}  // namespace sextant
