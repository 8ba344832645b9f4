#pragma once
// Curves as a picture.
#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x ascending
};
enum class Scale : std::uint8_t { kLinear, kLogarithmic };  ///< of x, to the base of 2

/// An SVG of curves over x, y from 0 on, with ticks, a legend and the point of each value.
std::string plot_svg(const std::string& title, const std::string& x_name, const std::string& y_name, Scale x_scale,
                     const std::vector<Curve>& curves);

}  // namespace sextant
