#include <algorithm>
#include <set>

#include "sextant/base/errors.h"
#include "sextant/ops/convert.h"
#include "sextant/program/draft.h"

namespace sextant {

std::string_view name_of(Life life) {
  constexpr std::string_view names[] = {"parameter", "gradient", "result", "kept", "temporary", "boundary", "data"};
  return names[static_cast<std::size_t>(life)];
}

bool starts_collective(const Step& step) {
  const auto* convert = dynamic_cast<const Convert*>(step.op.get());
  return convert && convert->collective() != CollectiveKind::kNone;
}

namespace {

bool has(const std::vector<int>& slots, int slot) { return std::find(slots.begin(), slots.end(), slot) != slots.end(); }

bool touches(const Step& step, const Step& collective) {
  const int made = collective.writes[0], read = collective.reads[0];
  return has(step.reads, made) || has(step.writes, made) || has(step.writes, read);
}

}  // namespace

LayerSplit split_of(const Plan& plan) {
  return {.mesh = mesh_of(plan), .rules = rules_of(plan), .w_inputs = plan.w_inputs};
}

void keep(Draft& d) {
  Unit& u = d.unit;
  std::set<int> read_by_i, read_by_w;
  const auto collect = [&] {
    read_by_i.clear(), read_by_w.clear();
    for (const Step& s : u.i) read_by_i.insert(s.reads.begin(), s.reads.end());
    for (const Step& s : u.w) read_by_w.insert(s.reads.begin(), s.reads.end());
  };
  collect();

  // Gathered shards that only W reads are dropped after F and gathered again in front of their first reader.
  if (d.split.w_inputs == WInputs::kGather) {
    for (const Step& made : std::vector<Step>(u.f)) {
      const auto* convert = dynamic_cast<const Convert*>(made.op.get());
      if (!convert || convert->collective() != CollectiveKind::kAllGather) continue;
      if (convert->axis != Axis::kTp && convert->axis != Axis::kEtp) continue;
      const int gathered = made.writes[0];
      if (!read_by_w.contains(gathered) || read_by_i.contains(gathered)) continue;
      TensorSpec spec = u.slots[static_cast<std::size_t>(gathered)].spec;
      spec.name += ".again";
      const int again = d.add_slot(spec, Life::kTemporary);
      const auto reader = std::find_if(u.w.begin(), u.w.end(), [&](const Step& s) {
        return std::count(s.reads.begin(), s.reads.end(), gathered) > 0;
      });
      u.w.insert(reader, {made.op, Pass::kF, made.reads, {again}, {}});
      for (Step& s : u.w) std::replace(s.reads.begin(), s.reads.end(), gathered, again);
      read_by_w.erase(gathered);
    }
  }
  rebuild(d);
  collect();
  for (const Step& s : u.f)
    for (const int slot : s.writes) {
      Slot& written = u.slots[static_cast<std::size_t>(slot)];
      const bool needed = read_by_i.contains(slot) || read_by_w.contains(slot);
      if (written.life == Life::kTemporary && needed) written.life = Life::kKept;
      check(written.life != Life::kBoundary || !needed, "a unit's output is not read by its own backward pass");
    }
}

// A collective starts right behind the step that makes what it reads, so that what else there is to do hides it. Those
// of an order stay in it.
void start_early(std::vector<Step>& steps) {
  for (std::size_t s = 1; s < steps.size(); ++s) {
    if (!starts_collective(steps[s])) continue;
    std::size_t to = s;
    const auto must_follow = [&](const Step& before) {
      const int read = steps[s].reads[0], made = steps[s].writes[0];
      return has(before.writes, read) || has(before.writes, made) || has(before.reads, made) ||
             starts_collective(before) || !before.inside.empty();
    };
    while (to > 0 && !must_follow(steps[to - 1])) --to;
    std::rotate(steps.begin() + static_cast<std::ptrdiff_t>(to), steps.begin() + static_cast<std::ptrdiff_t>(s),
                steps.begin() + static_cast<std::ptrdiff_t>(s) + 1);
  }
}

Unit lower(const Layer& layer, const LayerSplit& split) {
  Draft draft{layer, split};
  draft.unit.name = layer.name;
  draft.unit.layer = layer.index;
  for (const Parameter& p : layer.parameters)
    if (!p.is_shared) draft.unit.parameters.push_back(p);
  partition(draft);
  differentiate(draft);
  keep(draft);
  fuse(draft);
  start_early(draft.unit.f);
  start_early(draft.unit.i);
  return std::move(draft.unit);
}

std::vector<std::size_t> done_before(const std::vector<Step>& steps) {
  std::vector<std::size_t> out;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::size_t done = s + 1;
    if (starts_collective(steps[s]))
      while (done < steps.size() && !touches(steps[done], steps[s])) ++done;
    out.push_back(done);
  }
  return out;
}

std::vector<Step> Unit::b() const {
  // A w step is ready behind the last i step that writes one of its inputs; one that makes something again when its
  // first reader is.
  const auto reads_from = [](const Step& reader, const Step& writer) {
    return std::any_of(writer.writes.begin(), writer.writes.end(),
                       [&](int slot) { return slot >= 0 && has(reader.reads, slot); });
  };
  std::vector<std::size_t> ready(w.size(), 0);
  for (std::size_t n = 0; n < w.size(); ++n) {
    for (std::size_t k = 0; k < i.size(); ++k)
      if (reads_from(w[n], i[k])) ready[n] = k + 1;
    for (std::size_t m = 0; m < n; ++m)
      if (reads_from(w[n], w[m])) ready[n] = std::max(ready[n], ready[m]);
  }
  for (std::size_t n = w.size(); n-- > 0;) {
    if (w[n].pass != Pass::kF) continue;
    std::size_t first_reader = i.size();
    for (std::size_t r = n + 1; r < w.size(); ++r)
      if (reads_from(w[r], w[n])) first_reader = std::min(first_reader, ready[r]);
    ready[n] = std::max(ready[n], first_reader);
  }
  std::size_t collectives = 0;  // still to come
  for (const Step& step : i) collectives += starts_collective(step);
  std::vector<Step> out;
  std::vector<std::size_t> waiting;
  // All but `kept` of those that wait.
  const auto run = [&](std::size_t kept) {
    const auto until = waiting.end() - static_cast<std::ptrdiff_t>(std::min(kept, waiting.size()));
    for (auto n = waiting.begin(); n != until; ++n) out.push_back(w[*n]);
    waiting.erase(waiting.begin(), until);
  };
  for (std::size_t k = 0; k <= i.size(); ++k) {
    for (std::size_t n = 0; n < w.size(); ++n) {
      if (ready[n] != k) continue;
      // What is made again is a gather, or what one needs: it starts at once.
      if (w[n].pass == Pass::kF)
        out.push_back(w[n]);
      else
        waiting.push_back(n);
    }
    if (collectives == 0) run(0);
    if (k == i.size()) break;
    out.push_back(i[k]);
    if (!starts_collective(i[k])) continue;
    --collectives;
    // One is left for the next collective, in front of which there may be no other.
    run(collectives > 0 && waiting.size() > 1 ? 1 : 0);
  }
  return out;
}

std::vector<TensorSpec> local_inputs(const Unit& unit, const Step& step, const MeshSizes& mesh) {
  std::vector<TensorSpec> out;
  for (const int slot : step.inputs.empty() ? step.reads : step.inputs)
    out.push_back(local(unit.slots[static_cast<std::size_t>(slot)].spec, mesh));
  return out;
}

std::vector<NamedTraffic> traffic(const Unit& unit, const Step& step, const MeshSizes& mesh) {
  std::vector<NamedTraffic> out;
  if (const auto* convert = dynamic_cast<const Convert*>(step.op.get());
      convert && convert->collective() != CollectiveKind::kNone) {
    const TensorSpec& before = unit.slots[static_cast<std::size_t>(step.reads[0])].spec;
    const std::string& name = unit.slots[static_cast<std::size_t>(step.writes[0])].spec.name;
    out.push_back({name,
                   {convert->collective(), convert->axis, 1, convert->bytes(before, mesh), local_elements(before, mesh),
                    1, before.dtype}});
  }
  for (const Traffic& t : step.inside) out.push_back({std::string(step.op->kind()) + " inside", t});
  return out;
}

std::vector<NamedTraffic> traffic(const Unit& unit, const std::vector<Step>& steps, const MeshSizes& mesh) {
  std::vector<NamedTraffic> out;
  for (const Step& step : steps)
    for (NamedTraffic& one : traffic(unit, step, mesh)) out.push_back(std::move(one));
  return out;
}

std::string to_string(const Unit& unit, const MeshSizes& mesh) {
  std::string out = str("unit ", unit.name, "\n");
  const auto list = [&](const char* title, const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      std::vector<std::string> reads, writes;
      for (const int s : step.reads) reads.push_back(unit.slots[static_cast<std::size_t>(s)].spec.name);
      for (const int s : step.writes) {
        if (s < 0) continue;
        const Slot& slot = unit.slots[static_cast<std::size_t>(s)];
        writes.push_back(str(slot.spec.name, " ", to_string(slot.spec, mesh)));
      }
      std::string op(step.op->kind());
      if (const auto* convert = dynamic_cast<const Convert*>(step.op.get())) {
        op = str(to_string(convert->from), " -> ", to_string(convert->to), " over ", name_of(convert->axis));
        if (convert->collective() != CollectiveKind::kNone)
          op += str(": ", name_of(convert->collective()), ", ",
                    convert->bytes(unit.slots[static_cast<std::size_t>(step.reads[0])].spec, mesh).value, " B");
      }
      out += str("  ", title, "  ", op, " (", join(reads, ", "), ") -> ", join(writes, ", "));
      for (const Traffic& t : step.inside)
        out += str("  + ", name_of(t.kind), " over ", name_of(t.axis), ", ", t.bytes.value, " B");
      out += "\n";
    }
  };
  list("F", unit.f);
  list("I", unit.i);
  list("W", unit.w);
  std::vector<std::string> kept;
  for (const Slot& slot : unit.slots)
    if (slot.life == Life::kKept) kept.push_back(slot.spec.name);
  out += str("  kept: ", join(kept, ", "), "\n");
  for (const Slot& slot : unit.slots)
    if (slot.life == Life::kGradient || slot.life == Life::kResult)
      out += str("  ", name_of(slot.life), " ", slot.spec.name, " ", to_string(slot.spec, mesh), "\n");
  return out;
}

}  // namespace sextant
