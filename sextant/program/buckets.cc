#include <algorithm>
#include <map>

#include "sextant/base/errors.h"
#include "sextant/program/passes.h"

namespace sextant {
namespace {

// Parameters start on a cache line, and a bucket divides into equal slices for the ranks of the zero axes.
constexpr std::int64_t kAlignElements = 16;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

constexpr Axis inner_axis(Grid grid) { return axes_of(grid).back(); }

// What is known of a parameter by its name, over all coordinates.
struct Held {
  std::vector<int> holders;
  TensorSpec spec;        // as its uses place it
  Placements gradient{};  // as they leave its gradient
};

// Sums that are left behind the reduction over the zero axes, as the gradient's placement says over the inner axis.
struct Left {
  bool over_tensor = false;
  int copies = 1;
  bool operator==(const Left&) const = default;
};

Left left_of(const Held& held) {
  TensorSpec gradient = held.spec;
  gradient.at = held.gradient;
  const Placement inner = gradient.on(inner_axis(held.spec.grid));
  return {inner.kind == Kind::kPartial, inner.kind == Kind::kShard ? inner.copies : 1};
}

std::map<std::string, Held> find_holders(const Program& program) {
  std::map<std::string, Held> out;
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp)
    for (const Unit& unit : program.by_pp[pp].units)
      for (const Slot& slot : unit.slots) {
        if (slot.life == Life::kParameter) {
          Held& held = out[slot.spec.name];
          held.spec = slot.spec;
          if (held.holders.empty() || held.holders.back() != static_cast<int>(pp))
            held.holders.push_back(static_cast<int>(pp));
        } else if (slot.life == Life::kGradient) {
          out[slot.spec.name.substr(2)].gradient = slot.spec.at;  // "d." in front
        }
      }
  return out;
}

// The buckets of a stage, from its last unit to its first as the backward pass goes.
std::vector<Bucket> buckets_of(const RankProgram& rank, const Stage& stage, const std::map<std::string, Held>& held,
                               Bytes wanted, const MeshSizes& mesh) {
  std::vector<Bucket> out;
  struct Open {
    std::size_t bucket;
    int first_unit, last_unit;
    Bytes filled;
  };
  std::map<std::pair<std::vector<int>, Grid>, Open> open;  // by holders and grid
  const auto name = [&](const Open& o) {
    Bucket& bucket = out[o.bucket];
    const Unit &last = rank.units[static_cast<std::size_t>(o.last_unit)],
               &first = rank.units[static_cast<std::size_t>(o.first_unit)];
    // A part of a unit is called by its parameter.
    bucket.name = o.first_unit != o.last_unit                           ? last.name + ".." + first.name
                  : bucket.parameters.size() == first.parameters.size() ? first.name
                                                                        : bucket.parameters.front().spec.name;
  };
  for (int u = stage.last_unit; u >= stage.first_unit; --u) {
    const Unit& unit = rank.units[static_cast<std::size_t>(u)];
    for (auto it = open.begin(); it != open.end();)
      it = wanted.value > 0 && it->second.filled >= wanted ? (name(it->second), open.erase(it)) : std::next(it);
    for (const Parameter& p : unit.parameters) {
      const Held& h = held.at(p.spec.name);
      const std::pair key(h.holders, h.spec.grid);
      auto found = open.find(key);
      if (found == open.end()) {
        found = open.emplace(key, Open{out.size(), u, u, {}}).first;
        out.emplace_back().holders = h.holders;
        out.back().grid = h.spec.grid;
      }
      Open& o = found->second;
      o.first_unit = u;
      const std::int64_t size = local_elements(h.spec, mesh);
      out[o.bucket].parameters.push_back({p, h.spec, 0, size});
      o.filled += Bytes{size * size_of(h.spec.dtype)};
    }
  }
  for (const auto& [key, o] : open) name(o);
  return out;
}

// Those with the same sums left lie side by side, so that a sum is over one range.
void lay_out(Bucket& bucket, const std::map<std::string, Held>& held, const MeshSizes& mesh) {
  const auto left = [&](const Placed& p) { return left_of(held.at(p.spec.name)); };
  std::stable_sort(bucket.parameters.begin(), bucket.parameters.end(), [&](const Placed& a, const Placed& b) {
    const Left x = left(a), y = left(b);
    return std::pair(x.over_tensor, x.copies) < std::pair(y.over_tensor, y.copies);
  });
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    Placed& p = bucket.parameters[i];
    p.offset = bucket.elements;
    bucket.elements += round_up(p.size, kAlignElements);
    const Left l = left(p);
    const Axis inner = inner_axis(bucket.grid);
    if (l == Left{} || mesh[inner] == 1) continue;
    const Group group = l.over_tensor ? group_along(inner) : Group::kCopies;
    const bool continues = !bucket.rest.empty() && bucket.rest.back().end == p.offset &&
                           bucket.rest.back().group == group && bucket.rest.back().copies == l.copies;
    if (!continues) bucket.rest.push_back({group, p.offset, p.offset, l.copies});
    bucket.rest.back().end = bucket.elements;
  }
  bucket.elements = round_up(bucket.elements, kAlignElements * size_of(zero_group(bucket.grid), mesh));
  if (mesh[Axis::kDpReplicate] > 1) bucket.rest.push_back({Group::kReplicas, 0, bucket.elements});
  if (bucket.holders.size() > 1) bucket.rest.push_back({Group::kHolders, 0, bucket.elements});
}

// Which bucket a parameter lies in, per coordinate, and from it who uses it.
void find_users(RankProgram& rank) {
  std::map<std::string, int> bucket_of;
  for (std::size_t b = 0; b < rank.buckets.size(); ++b)
    for (const Placed& p : rank.buckets[b].parameters) bucket_of[p.spec.name] = static_cast<int>(b);
  rank.uses.assign(rank.units.size(), {});
  for (std::size_t u = 0; u < rank.units.size(); ++u) {
    const Unit& unit = rank.units[u];
    const auto note = [](std::vector<int>& list, int bucket) {
      if (std::find(list.begin(), list.end(), bucket) == list.end()) list.push_back(bucket);
    };
    const auto look = [&](Pass pass, const std::vector<Step>& steps) {
      BucketUse& use = rank.uses[u];
      for (const Step& step : steps) {
        for (const int s : step.reads) {
          const Slot& slot = unit.slots[static_cast<std::size_t>(s)];
          if (slot.life == Life::kParameter)
            note(use.reads[static_cast<std::size_t>(pass)], bucket_of.at(slot.spec.name));
        }
        for (const int s : step.writes) {
          if (s < 0 || unit.slots[static_cast<std::size_t>(s)].life != Life::kGradient) continue;
          note(use.writes[static_cast<std::size_t>(pass)],
               bucket_of.at(unit.slots[static_cast<std::size_t>(s)].spec.name.substr(2)));
        }
      }
    };
    look(Pass::kF, unit.f), look(Pass::kI, unit.i), look(Pass::kW, unit.w);
    for (const auto* lists : {&rank.uses[u].reads, &rank.uses[u].writes})
      for (const std::vector<int>& list : *lists)
        for (const int b : list) {
          auto& users = rank.buckets[static_cast<std::size_t>(b)].users;
          if (users.empty() || users.back() != static_cast<int>(u)) users.push_back(static_cast<int>(u));
        }
  }
}

}  // namespace

void make_buckets(Program& program, Bytes wanted) {
  const std::map<std::string, Held> held = find_holders(program);
  for (std::size_t pp = 0; pp < program.by_pp.size(); ++pp) {
    const RankProgram& rank = program.by_pp[pp];
    for (std::size_t s = rank.stages.size(); s-- > 0;) {
      const Stage& stage = rank.stages[s];
      if (stage.is_mirrored) continue;  // the copy lies as the original does
      for (Bucket& bucket : buckets_of(rank, stage, held, wanted, program.mesh)) {
        lay_out(bucket, held, program.mesh);
        // Every holder has it, in the order of the model's units from the last to the first.
        for (const int holder : bucket.holders)
          program.by_pp[static_cast<std::size_t>(holder)].buckets.push_back(bucket);
      }
    }
  }
  for (RankProgram& rank : program.by_pp) find_users(rank);
}

}  // namespace sextant
