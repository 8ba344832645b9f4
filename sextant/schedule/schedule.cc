#include "sextant/schedule/schedule.h"

#include <algorithm>
#include <utility>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"

namespace sextant {

std::string_view name_of(ActionKind kind) {
  constexpr std::string_view names[] = {"F", "I", "W", "B"};
  return names[static_cast<std::size_t>(kind)];
}

std::string to_string(const Action& a) {
  std::string out = std::to_string(a.stage);
  if (a.mirrored) out += '\'';
  out += name_of(a.kind);
  out += std::to_string(a.microbatch);
  return out;
}

std::string to_string(const std::vector<Action>& actions) {
  std::string out;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const bool is_pair = actions[i].pair >= 0 && i + 1 < actions.size() && actions[i + 1].pair == actions[i].pair;
    if (!out.empty()) out += ' ';
    out += is_pair ? "[" + to_string(actions[i]) + "+" + to_string(actions[i + 1]) + "]" : to_string(actions[i]);
    i += is_pair;
  }
  return out;
}

const ScheduleKind& find_schedule(std::string_view id) {
  std::vector<std::string> ids;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.id == id) return kind;
    ids.push_back(kind.id);
  }
  const std::string near = nearest(id, ids);
  throw InvalidInput(str("there is no schedule ", printable(id, 40), near.empty() ? "" : "; did you mean " + near + "?",
                         " (", join(ids, ", "), ", or csv:FILE)"));
}

ScheduleShape complete(const ScheduleKind& kind, ScheduleShape shape) {
  if (shape.virtual_stages == 0) shape.virtual_stages = kind.least_virtual;
  if (shape.group == 0) shape.group = shape.num_ranks;
  if (shape.most_live.empty() && kind.takes_most_live)
    shape.most_live.assign(static_cast<std::size_t>(std::max(1, shape.num_ranks)), shape.num_ranks);
  return shape;
}

std::vector<std::string> violations(const ScheduleKind& kind, const ScheduleShape& asked) {
  std::vector<std::string> out;
  constexpr int kMost = 1 << 14;  // stages are counted in 16 bits
  const ScheduleShape shape = complete(kind, asked);
  if (shape.num_ranks < 1 || shape.num_ranks > kMost)
    out.push_back(str("pipeline ranks = ", shape.num_ranks, "; use 1 to ", kMost));
  if (shape.num_microbatches < 1 || shape.num_microbatches > 1 << 20)
    out.push_back(str("microbatches = ", shape.num_microbatches, "; use 1 to ", 1 << 20));
  // A kind with several stages a rank may also run with one: it has a name of its own then.
  if (shape.virtual_stages < kind.least_virtual || shape.virtual_stages > kind.most_virtual)
    out.push_back(str("virtual stages = ", shape.virtual_stages, ", but ", kind.id, " has ",
                      kind.most_virtual > kind.least_virtual ? str("at least ", kind.least_virtual)
                                                             : str("exactly ", kind.least_virtual),
                      " a rank; use ", kind.least_virtual,
                      kind.least_virtual == 2 && kind.most_virtual > 2
                          ? str(", or ", kind.has_group ? "1f1b" : "gpipe", " for one a rank")
                          : ""));
  else if (std::int64_t{shape.virtual_stages} * shape.num_ranks > kMost)
    out.push_back(str("virtual stages = ", shape.virtual_stages, " make ",
                      std::int64_t{shape.virtual_stages} * shape.num_ranks, " stages; at most ", kMost));
  if (asked.group != 0 && !kind.has_group)
    out.push_back(str("group = ", asked.group, ", but ", kind.id, " has none; leave it out (interleaved has one)"));
  if (!asked.most_live.empty() && !kind.takes_most_live)
    out.push_back(str("most_live, but what ", kind.id, " holds is its own; leave it out (zb-capped takes it)"));
  if (kind.takes_most_live && std::cmp_not_equal(shape.most_live.size(), shape.num_ranks))
    out.push_back(str("most_live has ", shape.most_live.size(), " numbers; give one for each of ", shape.num_ranks,
                      " pipeline ranks"));
  for (const int n : shape.most_live)
    if (n < 1) out.push_back(str("most_live has a ", n, ": a rank that holds no microbatch can run none; at least 1"));
  if (out.empty() && kind.violations) out = kind.violations(shape);
  return out;
}

Schedule lay_out(const ScheduleKind& kind, const ScheduleShape& asked) {
  const ScheduleShape shape = complete(kind, asked);
  Schedule out{.kind = kind.id,
               .num_ranks = shape.num_ranks,
               .num_stages = shape.num_ranks * shape.virtual_stages,
               .num_microbatches = shape.num_microbatches,
               .is_mirrored = kind.stages == StageMap::kMirrored};
  for (int rank = 0; rank < shape.num_ranks; ++rank) out.by_rank.push_back(kind.actions(shape, rank));
  return out;
}

Schedule make_schedule(const ScheduleKind& kind, const ScheduleShape& shape) {
  if (const std::vector<std::string> found = violations(kind, shape); !found.empty())
    throw InvalidInput(str("schedule ", kind.id, " does not go with this shape:\n  - ", join(found, "\n  - ")));
  return lay_out(kind, shape);
}

std::vector<ScheduleFault> faults(const Schedule& schedule) {
  std::vector<ScheduleFault> out;
  const int num_microbatches = schedule.microbatches_of_stage(), directions = schedule.is_mirrored ? 2 : 1;
  const auto index = [&](int stage, bool mirrored) { return static_cast<std::size_t>(stage * directions + mirrored); };
  std::vector<int> holder(static_cast<std::size_t>(schedule.num_stages * directions), -1);
  // What was done so far, a bit for each kind.
  std::vector<std::uint8_t> done(holder.size() * static_cast<std::size_t>(num_microbatches));
  constexpr auto bit = [](ActionKind kind) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind)); };
  using enum ActionKind;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    if (schedule.by_rank[static_cast<std::size_t>(rank)].empty())
      out.push_back({rank, "has no actions; leave it out, or give it a stage"});
    for (const Action& a : schedule.by_rank[static_cast<std::size_t>(rank)]) {
      if (a.stage < 0 || a.stage >= schedule.num_stages || a.microbatch < 0 || a.microbatch >= num_microbatches ||
          (a.mirrored && !schedule.is_mirrored)) {
        out.push_back({rank, str(to_string(a), " is outside of ", schedule.num_stages, " stages and ", num_microbatches,
                                 " microbatches")});
        continue;
      }
      int& owner = holder[index(a.stage, a.mirrored)];
      if (owner < 0) owner = rank;
      if (owner != rank)
        out.push_back({rank, str(to_string(a), " is on this rank, but stage ", a.stage, a.mirrored ? "'" : "",
                                 " runs on rank ", owner, "; keep a stage on one rank")});
      std::uint8_t& seen = done[index(a.stage, a.mirrored) * static_cast<std::size_t>(num_microbatches) +
                                static_cast<std::size_t>(a.microbatch)];
      const auto name = [&](ActionKind kind) {
        Action other = a;
        other.kind = kind;
        return to_string(other);
      };
      if (seen & bit(a.kind)) {
        out.push_back({rank, str(to_string(a), " comes twice; leave one of them out")});
      } else if (a.kind != kF && !(seen & bit(kF))) {
        out.push_back({rank, str(to_string(a), " comes before ", name(kF), "; it needs what that keeps")});
      } else if (a.kind == kW && !(seen & bit(kI))) {
        out.push_back(
            {rank, str(to_string(a), " comes before ", name(kI), "; it needs the gradients that are made there")});
      } else if ((a.kind == kB && (seen & (bit(kI) | bit(kW)))) || (a.kind != kF && (seen & bit(kB)))) {
        out.push_back({rank, str(to_string(a), " repeats a backward pass: use either ", name(kB), " or ", name(kI),
                                 " and ", name(kW))});
      }
      seen = static_cast<std::uint8_t>(seen | bit(a.kind));
    }
  }
  for (int stage = 0; stage < schedule.num_stages; ++stage)
    for (int mirrored = 0; mirrored < directions; ++mirrored) {
      const int owner = holder[index(stage, mirrored)];
      if (owner < 0) {
        out.push_back({0, str("stage ", stage, mirrored ? "'" : "", " has no action on any rank")});
        continue;
      }
      for (int m = 0; m < num_microbatches; ++m) {
        const std::uint8_t seen =
            done[index(stage, mirrored) * static_cast<std::size_t>(num_microbatches) + static_cast<std::size_t>(m)];
        const auto miss = [&](ActionKind kind) {
          const Action a{static_cast<std::int16_t>(stage), kind, m, mirrored != 0};
          out.push_back({owner, str(to_string(a), " is missing; every stage runs every microbatch once")});
        };
        if (!(seen & bit(kF))) miss(kF);
        if (!(seen & (bit(kB) | bit(kI)))) miss(seen & bit(kW) ? kI : kB);
        if ((seen & bit(kI)) && !(seen & bit(kW))) miss(kW);
      }
    }
  std::stable_sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return x.rank < y.rank; });
  return out;
}

bool can_end(const Schedule& schedule) {
  const int num_microbatches = schedule.microbatches_of_stage();
  enum Made { kForward, kBackward };
  std::vector<char> made(static_cast<std::size_t>(schedule.num_stages) * 4 *
                         static_cast<std::size_t>(num_microbatches));
  const auto entry = [&](Made what, int stage, const Action& a) -> char& {
    return made[((static_cast<std::size_t>(stage) * 2 + a.mirrored) * 2 + what) *
                    static_cast<std::size_t>(num_microbatches) +
                static_cast<std::size_t>(a.microbatch)];
  };
  const auto has_input = [&](const Action& a) {
    if (a.kind == ActionKind::kF) return a.stage == 0 || entry(kForward, a.stage - 1, a) != 0;
    return a.kind == ActionKind::kW || a.stage + 1 == schedule.num_stages || entry(kBackward, a.stage + 1, a) != 0;
  };
  const auto make = [&](const Action& a, char value) {
    if (a.kind != ActionKind::kW) entry(a.kind == ActionKind::kF ? kForward : kBackward, a.stage, a) = value;
  };
  std::vector<std::size_t> next(schedule.by_rank.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < next.size(); ++r) {
      const std::vector<Action>& actions = schedule.by_rank[r];
      while (next[r] < actions.size() && has_input(actions[next[r]])) {
        const Action& a = actions[next[r]];
        const Action* partner =
            a.pair >= 0 && next[r] + 1 < actions.size() && actions[next[r] + 1].pair == a.pair ? &a + 1 : nullptr;
        make(a, 1);
        // Both of a pair start at once: nobody else sees what the first makes before the second can start.
        if (partner && !has_input(*partner)) {
          make(a, 0);
          break;
        }
        if (partner) make(*partner, 1);
        next[r] += partner ? 2 : 1;
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < next.size(); ++r)
    if (next[r] < schedule.by_rank[r].size()) return false;
  return true;
}

Schedule schedule_of(const std::string& id, const ScheduleShape& shape) {
  if (!is_file(id)) return make_schedule(find_schedule(id), shape);
  const std::string file = id.substr(4);
  Schedule read = parse_csv(read_file(file), file);
  const auto agree = [&](const char* what, int asked, int has) {
    if (asked != 0 && asked != has)
      throw InvalidInput(
          str(printable_path(file), ": has ", what, " = ", has, ", but ", asked, " was asked for; use ", has));
  };
  agree("ranks (rows)", shape.num_ranks, read.num_ranks);
  agree("microbatches", shape.num_microbatches, read.num_microbatches);
  if (shape.virtual_stages != 0) agree("stages", shape.virtual_stages * read.num_ranks, read.num_stages);
  if (shape.group != 0) throw InvalidInput(str(printable_path(file), ": a file has no group; leave group out"));
  read.kind = id;
  return read;
}

}  // namespace sextant
