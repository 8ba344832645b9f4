#include "sextant/trace/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "sextant/trace/xml.h"

namespace sextant {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 70, kRight = 190, kTop = 40, kBottom = 50;
constexpr const char* kColours[] = {"#1f5fa8", "#c8501e", "#2c8a4b", "#8a4fb0", "#9a7a14", "#4a4a4a"};

std::string number(double value) {
  char text[32];
  const double size = std::abs(value);
  if (size >= 1e6)
    std::snprintf(text, sizeof text, "%.3gM", value / 1e6);
  else if (size >= 1e4)
    std::snprintf(text, sizeof text, "%.3gk", value / 1e3);
  else
    std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// 1, 2 or 5 times a power of ten, for about five ticks.
double tick_of(double most) {
  const double rough = most / 5, power = std::pow(10, std::floor(std::log10(rough))), first = rough / power;
  return power * (first < 1.5 ? 1 : first < 3.5 ? 2 : first < 7.5 ? 5 : 10);
}

}  // namespace

std::string plot_svg(const std::string& title, const std::string& x_name, const std::string& y_name, Scale x_scale,
                     const std::vector<Curve>& curves) {
  double x_least = 1e300, x_most = -1e300, y_most = 0;
  std::vector<double> marks;
  for (const Curve& c : curves)
    for (const auto& [x, y] : c.points) {
      x_least = std::min(x_least, x), x_most = std::max(x_most, x), y_most = std::max(y_most, y);
      marks.push_back(x);
    }
  if (marks.empty()) return "";
  std::sort(marks.begin(), marks.end());
  marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
  if (y_most <= 0) y_most = 1;
  const auto along = [&](double x) { return x_scale == Scale::kLogarithmic ? std::log2(x) : x; };
  const double from = along(x_least), to = std::max(along(x_most), from + 1e-9);
  const double inner_width = kWidth - kLeft - kRight, inner_height = kHeight - kTop - kBottom;
  const auto at_x = [&](double x) { return kLeft + inner_width * (along(x) - from) / (to - from); };
  const double tick = tick_of(y_most), top = tick * std::ceil(y_most / tick - 1e-9);
  const auto at_y = [&](double y) { return kTop + inner_height * (1 - y / top); };

  std::ostringstream out;
  out.precision(5);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << " " << kHeight
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << "<text x=\"" << kLeft << "\" y=\"22\" font-size=\"15\">" << xml_escaped(title) << "</text>\n";
  for (double y = 0; y <= top * 1.0001; y += tick)
    out << "<line x1=\"" << kLeft << "\" x2=\"" << kWidth - kRight << "\" y1=\"" << at_y(y) << "\" y2=\"" << at_y(y)
        << "\" stroke=\"#ddd\"/><text x=\"" << kLeft - 6 << "\" y=\"" << at_y(y) + 4 << "\" text-anchor=\"end\">"
        << number(y) << "</text>\n";
  const std::size_t every = (marks.size() + 9) / 10;
  for (std::size_t i = 0; i < marks.size(); i += every)
    out << "<text x=\"" << at_x(marks[i]) << "\" y=\"" << kHeight - kBottom + 18 << "\" text-anchor=\"middle\">"
        << number(marks[i]) << "</text>\n";
  out << "<text x=\"" << kLeft + inner_width / 2 << "\" y=\"" << kHeight - 10 << "\" text-anchor=\"middle\">"
      << xml_escaped(x_name) << "</text>\n<text transform=\"translate(16 " << kTop + inner_height / 2
      << ") rotate(-90)\" text-anchor=\"middle\">" << xml_escaped(y_name) << "</text>\n";
  for (std::size_t c = 0; c < curves.size(); ++c) {
    const char* colour = kColours[c % std::size(kColours)];
    out << "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" << colour << "\" points=\"";
    for (const auto& [x, y] : curves[c].points) out << at_x(x) << "," << at_y(y) << " ";
    out << "\"/>\n";
    for (const auto& [x, y] : curves[c].points)
      out << "<circle cx=\"" << at_x(x) << "\" cy=\"" << at_y(y) << "\" r=\"3\" fill=\"" << colour << "\"/>\n";
    const double y = kTop + 14 + 18 * static_cast<double>(c);
    out << "<rect x=\"" << kWidth - kRight + 14 << "\" y=\"" << y - 9 << "\" width=\"12\" height=\"10\" fill=\""
        << colour << "\"/><text x=\"" << kWidth - kRight + 32 << "\" y=\"" << y << "\">" << xml_escaped(curves[c].name)
        << "</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace sextant
