#pragma once
// The working state that the lowering passes hand on. Not for users of `lower`.
#include <map>

#include "sextant/program/unit.h"

namespace sextant {

/// A node with the slots that its forward pass uses.
struct Bound {
  const Node* node = nullptr;
  std::vector<Placements> accepted;  ///< per input
  std::vector<int> in, out;          ///< inputs as accepted, outputs as yielded
  std::vector<Placements> yielded;   ///< per output
  std::vector<Traffic> inside_f, inside_i;
};

struct Draft {
  const Layer& layer;
  const LayerSplit& split;
  Unit unit{};
  std::vector<Bound> nodes{};
  std::map<int, Placements> left_partial{};              ///< sums that their one consumer takes as they are
  std::map<std::pair<int, Placements>, int> value{};     ///< (tensor, placements) -> slot
  std::map<std::pair<int, Placements>, int> gradient{};  ///< (tensor, placements of the gradient) -> slot

  const TensorSpec& spec(int tensor) const { return layer.tensors[static_cast<std::size_t>(tensor)].spec; }
  Role role(int tensor) const { return layer.tensors[static_cast<std::size_t>(tensor)].role; }
  Placements placed_by_rules(int tensor) const;
  /// The placement of a tensor that crosses a border as a slice.
  Placements sliced(int tensor) const;
  /// As the rules place it, or partial if it is left so.
  Placements own(int tensor) const;
  int add_slot(TensorSpec spec, Life life);
  /// Steps that take a slot from one set of placements to another, inner axis first (outer first if `backward`, as
  /// the mirror of a forward chain). Intermediate slots are named `name`; `last` receives the end if >= 0.
  int convert(std::vector<Step>& steps, int slot, Placements to, bool backward, const std::string& name, int last = -1);
};

/// C and R hold the same value: placements as they are stored.
Placements stored(Placements placements);
Placements dual(const Placements& used);

void partition(Draft& draft);      ///< forward steps with conversions
void differentiate(Draft& draft);  ///< I and W steps
void rebuild(Draft& draft);        ///< forward steps that the backward passes do again (recompute)
void keep(Draft& draft);           ///< lives of slots; what is gathered again
void fuse(Draft& draft);           ///< neighbouring forward steps that one kernel does

}  // namespace sextant
