#include <algorithm>

#include "sextant/base/errors.h"
#include "sextant/ops/convert.h"
#include "sextant/program/draft.h"

namespace sextant {

Placements stored(Placements placements) {
  for (Placement& p : placements)
    if (p.kind == Kind::kCopied) p = replicate();
  return placements;
}

Placements dual(const Placements& used) {
  Placements out;
  for (std::size_t i = 0; i < used.size(); ++i) out[i] = dual(used[i]);
  return out;
}

Placements Draft::own(int tensor) const {
  const auto partial = left_partial.find(tensor);
  return partial != left_partial.end() ? partial->second : placed_by_rules(tensor);
}

Placements Draft::placed_by_rules(int tensor) const {
  Placements at;
  const auto axes = axes_of(spec(tensor).grid);
  for (std::size_t i = 0; i < axes.size(); ++i) at[i] = own_placement(spec(tensor), axes[i], split.rules, split.mesh);
  return at;
}

Placements Draft::sliced(int tensor) const {
  Placements at = own(tensor);
  const auto axes = axes_of(spec(tensor).grid);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == Axis::kTp && split.mesh[Axis::kTp] > 1 && at[i] == replicate()) at[i] = shard('S');
  return at;
}

int Draft::add_slot(TensorSpec spec, Life life) {
  unit.slots.push_back({std::move(spec), life});
  return static_cast<int>(unit.slots.size()) - 1;
}

int Draft::convert(std::vector<Step>& steps, int slot, Placements to, bool backward, const std::string& name,
                   int last) {
  struct Hop {
    Axis axis;
    Placement from, to;
  };
  std::vector<Hop> hops;
  const TensorSpec start = unit.slots[static_cast<std::size_t>(slot)].spec;
  const auto axes = axes_of(start.grid);
  for (std::size_t n = 0; n < axes.size(); ++n) {
    const std::size_t i = backward ? n : axes.size() - 1 - n;
    if (!same_value(start.at[i], to[i])) hops.push_back({axes[i], start.at[i], to[i]});
  }
  for (std::size_t h = 0; h < hops.size(); ++h) {
    const auto op = std::make_shared<Convert>(hops[h].axis, hops[h].from, hops[h].to, split.mesh[hops[h].axis],
                                              hops[h].axis == Axis::kCp ? split.rules.cp_slices : Slices::kContiguous);
    TensorSpec out = op->outputs(std::span(&unit.slots[static_cast<std::size_t>(slot)].spec, 1))[0];
    const bool is_last = h + 1 == hops.size();
    out.name = is_last ? name : name + "." + std::string(name_of(hops[h].axis));
    const int written = is_last && last >= 0 ? last : add_slot(std::move(out), Life::kTemporary);
    steps.push_back({op, backward ? Pass::kI : Pass::kF, {slot}, {written}, {}});
    slot = written;
  }
  return slot;
}

namespace {

// The slot that holds a tensor as `accepted`, converting it if no consumer has asked for that before.
int version(Draft& d, int tensor, const Placements& accepted) {
  const Placements wanted = stored(accepted);
  if (const auto found = d.value.find({tensor, wanted}); found != d.value.end()) return found->second;
  TensorSpec spec = d.spec(tensor);
  int slot = -1;
  if (d.role(tensor) == Role::kData) {  // the loader makes it in any placement
    spec.at = wanted;
    slot = d.add_slot(spec, Life::kData);
  } else {
    const auto own = d.value.find({tensor, d.own(tensor)});
    check(own != d.value.end(), "a tensor is made before it is used");
    std::string suffix;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i] != d.own(tensor)[i])
        suffix += str("@", name_of(axes_of(spec.grid)[i]), ".", to_string(accepted[i]));
    if (d.role(tensor) == Role::kParameter) {
      TensorSpec placed = spec;
      placed.at = d.own(tensor);
      throw InvalidInput(
          str("parameter ", spec.name, " would be used as", suffix, ", but is ", to_string(placed, d.split.mesh)));
    }
    slot = d.convert(d.unit.f, own->second, wanted, false, spec.name + suffix);
  }
  d.value[{tensor, wanted}] = slot;
  return slot;
}

Traffic inside_traffic(const Inside& inside, const TensorSpec& like, Axis axis, int calls, const MeshSizes& mesh) {
  // Statistics have the leading tensor's local sizes in their dims.
  std::int64_t rows = 1;
  for (const char dim : inside.dims) rows *= local_size(like, dim, mesh);
  const Bytes whole{rows * inside.per_element * size_of(statistic_of(like.dtype))};
  return {inside.kind,
          axis,
          calls,
          received_bytes(inside.kind, whole, mesh[axis]),
          rows,
          inside.per_element,
          statistic_of(like.dtype)};
}

// Asks the op for its row over every axis, with its inputs as they are.
std::vector<std::pair<Axis, Row>> choose_rows(const Draft& d, const Node& node, Bound& bound) {
  std::vector<TensorSpec> in;
  for (const int t : node.in) {
    in.push_back(d.spec(t));
    in.back().at = d.own(t);
  }
  bound.accepted.assign(node.in.size(), {});
  bound.yielded.assign(node.out.size(), {});
  std::vector<std::pair<Axis, Row>> rows;
  for (int a = 0; a < kNumAxes; ++a) {
    const auto axis = static_cast<Axis>(a);
    const auto here = [&](int tensor) { return has(d.spec(tensor).grid, axis); };
    if (d.split.mesh[axis] == 1 ||
        (std::none_of(node.in.begin(), node.in.end(), here) && std::none_of(node.out.begin(), node.out.end(), here)))
      continue;
    const auto answer = node.op->row(in, axis, d.split.rules.cp_kind);
    if (const auto* refusal = std::get_if<Refusal>(&answer))
      throw InvalidInput(
          str("layer ", d.layer.name, ": ", node.op->kind(), " over ", name_of(axis), ": ", refusal->why));
    const Row& row = std::get<Row>(answer);
    check(row.in.size() == node.in.size() && row.out.size() == node.out.size(), "a row names every input and output");
    // A tensor of the other grid does not lie over this axis: what the row says of it is not read.
    const auto note = [&](const std::vector<int>& tensors, const std::vector<Placement>& placed,
                          std::vector<Placements>& into) {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (here(tensors[i])) into[i][index_of(axis)] = placed[i];
    };
    note(node.in, row.in, bound.accepted);
    note(node.out, row.out, bound.yielded);
    rows.emplace_back(axis, row);
  }
  return rows;
}

// Whether the one consumer of a partial sum would take it as it is, next to other sums (an add).
bool consumer_takes_sums(const Draft& d, int tensor, const Placements& yielded) {
  const Node* consumer = nullptr;
  for (const Node& node : d.layer.nodes)
    for (const int t : node.in) {
      if (t != tensor) continue;
      if (consumer) return false;
      consumer = &node;
    }
  if (!consumer) return false;
  const auto axes = axes_of(d.spec(tensor).grid);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (yielded[a] == d.placed_by_rules(tensor)[a]) continue;
    if (yielded[a].kind != Kind::kPartial) return false;
    std::vector<TensorSpec> in;
    for (const int t : consumer->in) {
      in.push_back(d.spec(t));
      in.back().place(axes[a], partial());
    }
    const auto answer = consumer->op->row(in, axes[a], d.split.rules.cp_kind);
    const auto* row = std::get_if<Row>(&answer);
    if (!row || row->in[0].kind != Kind::kPartial) return false;
  }
  return true;
}

}  // namespace

void partition(Draft& d) {
  const auto num_tensors = static_cast<int>(d.layer.tensors.size());
  for (int t = 0; t < num_tensors; ++t) {
    if (d.role(t) != Role::kParameter && t != d.layer.input) continue;
    TensorSpec spec = d.spec(t);
    const Placements own = d.own(t);
    spec.at = t == d.layer.input && d.split.slice_input ? d.sliced(t) : own;
    if (spec.at != own) spec.name += ".slice";
    const int slot = d.add_slot(spec, d.role(t) == Role::kParameter ? Life::kParameter : Life::kBoundary);
    if (t == d.layer.input) d.unit.input = slot;
    d.value[{t, own}] = d.convert(d.unit.f, slot, own, false, d.spec(t).name);
  }
  for (const Node& node : d.layer.nodes) {
    Bound bound{&node, {}, {}, {}, {}, {}, {}};
    std::vector<std::pair<Axis, Row>> rows = choose_rows(d, node, bound);
    // A sum that this op does not take as one is completed now.
    bool completed = false;
    for (std::size_t i = 0; i < node.in.size(); ++i) {
      const int tensor = node.in[i];
      if (!d.left_partial.contains(tensor) || bound.accepted[i] == d.own(tensor)) continue;
      const int sum = d.value.at({tensor, d.own(tensor)});
      d.left_partial.erase(tensor);
      d.value[{tensor, d.own(tensor)}] = d.convert(d.unit.f, sum, d.own(tensor), false, d.spec(tensor).name);
      completed = true;
    }
    if (completed) rows = choose_rows(d, node, bound);
    std::vector<TensorSpec> in;
    for (const int t : node.in) in.push_back(d.spec(t));
    for (std::size_t i = 0; i < node.in.size(); ++i) {
      bound.in.push_back(version(d, node.in[i], bound.accepted[i]));
      in[i].at = stored(bound.accepted[i]);
    }
    std::vector<TensorSpec> local_in;
    for (const TensorSpec& spec : in) local_in.push_back(local(spec, d.split.mesh));
    for (const auto& [axis, row] : rows)
      for (const auto* list : {&row.inside_f, &row.inside_i})
        for (const Inside& inside : *list)
          (list == &row.inside_f ? bound.inside_f : bound.inside_i)
              .push_back(inside_traffic(inside, in[0], axis, node.op->inside_calls(local_in), d.split.mesh));
    for (std::size_t o = 0; o < node.out.size(); ++o) {
      TensorSpec spec = d.spec(node.out[o]);
      const Placements own = d.own(node.out[o]);
      spec.at = bound.yielded[o];
      const bool converted = o == 0 && node.op->result_pass() == Pass::kF && spec.at != own;
      if (converted) spec.name += ".sum";
      const bool is_result_of_step = node.op->result_pass() == Pass::kI;
      bound.out.push_back(d.add_slot(spec, is_result_of_step ? Life::kResult : Life::kTemporary));
    }
    if (node.op->result_pass() == Pass::kF)
      d.unit.f.push_back({node.op, Pass::kF, bound.in, bound.out, bound.inside_f});
    for (std::size_t o = 0; o < node.out.size(); ++o) {
      if (o == 0 && bound.yielded[o] != d.own(node.out[o]) && consumer_takes_sums(d, node.out[o], bound.yielded[o]))
        d.left_partial[node.out[o]] = bound.yielded[o];
      const Placements own = d.own(node.out[o]);
      int slot = bound.out[o];
      if (o == 0 && node.op->result_pass() == Pass::kF && bound.yielded[o] != own)
        slot = d.convert(d.unit.f, slot, own, false, d.spec(node.out[o]).name);
      d.value[{node.out[o], own}] = slot;
    }
    d.nodes.push_back(std::move(bound));
  }
  if (d.layer.output >= 0) {
    d.unit.output = d.value.at({d.layer.output, d.own(d.layer.output)});
    if (d.split.slice_output)
      d.unit.output =
          d.convert(d.unit.f, d.unit.output, d.sliced(d.layer.output), false, d.spec(d.layer.output).name + ".slice");
    d.unit.slots[static_cast<std::size_t>(d.unit.output)].life = Life::kBoundary;
  }
}

}  // namespace sextant
