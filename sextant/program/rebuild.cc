#include <algorithm>
#include <map>

#include "sextant/base/errors.h"
#include "sextant/program/draft.h"

namespace sextant {
namespace {

bool is_one_of(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

const TensorSpec& spec_of(const Draft& d, int slot) { return d.unit.slots[static_cast<std::size_t>(slot)].spec; }

// Whether the backward pass makes the results of a forward step again.
bool is_rebuilt(const Draft& d, const Step& step) {
  const std::string_view kind = step.op->kind();
  // Routing is kept under every choice: it is small, and no token may be routed twice.
  if (d.split.recompute.full) return kind != "router";
  for (const std::string& name : d.split.recompute.ops) {
    if (name == "norm" && is_one_of(kind, {"layernorm", "rmsnorm"})) return true;
    if (name == "act" && is_one_of(kind, {"gelu", "swiglu", "geglu", "clamped_swiglu"})) return true;
    if (name == "attention" && is_one_of(kind, {"attention", "latent_attention"})) return true;
    // What unfused attention keeps of scores, but not its result: the selective recomputation of Korthikanti et al.
    // 2022.
    if (name == "attention" && is_one_of(kind, {"scores", "softmax"})) return true;
    if (name == "attention" && kind == "dropout" && spec_of(d, step.reads[0]).has('C')) return true;
    if (name == "rope" && kind == "rope") return true;
    // What is made from MLA's latents: their dims Q and L are what the weight contracts.
    if (name == "mla_up" && kind == "linear") {
      const Dim contracted = spec_of(d, step.reads[1]).dims.back().dim;
      if (contracted == 'Q' || contracted == 'L') return true;
    }
  }
  return false;
}

class Rebuilder {
 public:
  explicit Rebuilder(Draft& d) : d_(d), forward_(d.unit.f) {
    for (std::size_t s = 0; s < forward_.size(); ++s)
      if (is_rebuilt(d, forward_[s]))
        for (const int slot : forward_[s].writes) {
          const bool is_small = spec_of(d, slot).elements() < spec_of(d, forward_[s].writes[0]).elements();
          if (d.split.recompute.full || !is_small) maker_[slot] = s;  // statistics are kept
        }
  }

  // Replaces what a list reads by what is made again right in front of its first reader.
  void replace_in(std::vector<Step>& list) {
    std::vector<Step> out;
    for (Step& step : list) {
      for (int& slot : step.reads) slot = again(slot, out);
      out.push_back(std::move(step));
    }
    list = std::move(out);
  }

 private:
  int again(int slot, std::vector<Step>& out) {
    const auto made = maker_.find(slot);
    if (made == maker_.end()) return slot;
    if (const auto found = again_.find(slot); found != again_.end()) return found->second;
    Step step = forward_[made->second];
    for (int& read : step.reads) read = again(read, out);
    for (int& written : step.writes) {
      TensorSpec spec = d_.unit.slots[static_cast<std::size_t>(written)].spec;
      spec.name += ".again";
      written = again_[written] = d_.add_slot(std::move(spec), Life::kTemporary);
    }
    out.push_back(step);
    return again_.at(slot);
  }

  Draft& d_;
  const std::vector<Step> forward_;
  std::map<int, std::size_t> maker_;  // slot -> forward step
  std::map<int, int> again_;
};

}  // namespace

void rebuild(Draft& d) {
  if (!d.split.recompute.any()) return;
  Rebuilder rebuilder(d);
  rebuilder.replace_in(d.unit.i);
  rebuilder.replace_in(d.unit.w);
}

}  // namespace sextant
