#pragma once
// Runs the steps of one unlowered-over-nothing unit (mesh of one rank) on plain vectors: for tests of ops and of lists.
#include <map>
#include <string>
#include <vector>

#include "sextant/program/unit.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {

class UnitRunner {
 public:
  /// Values are float64, or float32 if the layer's tensors are.
  UnitRunner(const Layer& layer, const KernelTable& kernels, int threads = 1);
  const Unit& unit() const { return unit_; }
  /// Values of a float64 slot by name; integer slots by integers().
  std::vector<double>& values(const std::string& slot) { return doubles_.at(find(slot)); }
  std::vector<float>& floats(const std::string& slot) { return floats_.at(find(slot)); }
  template <class T>
  std::vector<T>& integers(const std::string& slot);
  void forward() { run(unit_.f); }
  void backward_fused() { run(unit_.b()); }
  void backward_split() { run(unit_.i), run(unit_.w); }
  /// Gradients count as not yet written.
  void fresh() { written_.clear(); }

 private:
  void run(const std::vector<Step>& steps);
  int find(const std::string& slot) const;
  Unit unit_;
  const KernelTable& kernels_;
  Team team_;
  std::vector<TensorSpec> specs_;
  std::map<int, std::vector<double>> doubles_;
  std::map<int, std::vector<float>> floats_;
  std::map<int, std::vector<std::int32_t>> ints_;
  std::map<int, std::vector<std::int64_t>> longs_;
  std::map<int, bool> written_;
};

}  // namespace sextant
