#include <algorithm>

#include "sextant/base/str.h"
#include "sextant/schedule/schedule.h"

namespace sextant {

ScheduleKind interleaved_schedule();

namespace {

std::vector<Action> interleaved_actions(const ScheduleShape& shape, int rank);

// A last group shorter than the pipeline lets a chunk ask for a microbatch before the chunk in front has made it. That
// costs time, or the ranks wait for each other for ever: no closed rule says which, so it is tried.
std::vector<std::string> short_group_violations(const ScheduleShape& shape) {
  const int p = shape.num_ranks, m = shape.num_microbatches, last = m % shape.group;
  if (m < shape.group || last == 0 || last >= p || can_end(lay_out(interleaved_schedule(), shape))) return {};
  int group = p;
  while (m % group != 0 && m % group < p) ++group;
  return {str("microbatches = ", m, " in groups of ", shape.group, " leave a last group of ", last, ", less than the ",
              p, " pipeline ranks, and with ", shape.virtual_stages,
              " virtual stages ranks would wait for each other; use group = ", group, ", or microbatches = ", m - last,
              " or ", m - last + shape.group)};
}

std::vector<std::string> interleaved_violations(const ScheduleShape& shape) {
  // With fewer, a chunk's first microbatch is asked for before the chunk in front could have made it.
  if (shape.group >= std::min(shape.num_ranks, shape.num_microbatches)) return short_group_violations(shape);
  return {str("group = ", shape.group, " is less than the ", shape.num_ranks,
              " pipeline ranks, and ranks would wait for each other; use group = ", shape.num_ranks, " or more")};
}

std::vector<Action> interleaved_actions(const ScheduleShape& shape, int rank) {
  const int num_ranks = shape.num_ranks, num_chunks = shape.virtual_stages, num_microbatches = shape.num_microbatches;
  // Virtual microbatches: chunk after chunk takes a group of microbatches. The last group may be short.
  struct Turn {
    int microbatch, chunk;
  };
  std::vector<Turn> turns;
  for (int low = 0; low < num_microbatches; low += shape.group)
    for (int c = 0; c < num_chunks; ++c)
      for (int m = low; m < std::min(low + shape.group, num_microbatches); ++m) turns.push_back({m, c});
  const int num_turns = static_cast<int>(turns.size());
  const int warmup = std::min(num_turns, 2 * (num_ranks - 1 - rank) + (num_chunks - 1) * shape.group);

  std::vector<Action> out;
  const auto forward = [&](int k) {
    const Turn& t = turns[static_cast<std::size_t>(k)];
    out.push_back({static_cast<std::int16_t>(t.chunk * num_ranks + rank), ActionKind::kF, t.microbatch});
  };
  for (int k = 0; k < warmup; ++k) forward(k);
  for (int k = 0; k < num_turns; ++k) {
    if (k + warmup < num_turns) forward(k + warmup);
    const Turn& t = turns[static_cast<std::size_t>(k)];
    const int chunk = num_chunks - 1 - t.chunk;
    out.push_back({static_cast<std::int16_t>(chunk * num_ranks + rank), ActionKind::kB, t.microbatch});
  }
  return out;
}

}  // namespace

// Depth-first interleaving (Narayanan et al. 2021), with groups as in Llama 3 (2024).
ScheduleKind interleaved_schedule() {
  return {.id = "interleaved",
          .summary = "1f1b over several chunks a rank; 1/V of the bubble, V times the messages (Narayanan et al. 2021)",
          .least_virtual = 2,
          .most_virtual = 1 << 10,
          .has_group = true,
          .violations = interleaved_violations,
          .actions = interleaved_actions};
}

}  // namespace sextant
