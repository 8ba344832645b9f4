#include "sextant/schedule/schedule.h"

namespace sextant {

// Breadth-first pipeline (Lamy-Poirier 2023): chunk after chunk, so each is gathered once each way.
ScheduleKind bfs_schedule() {
  return {.id = "bfs",
          .summary = "gpipe over several chunks a rank; fewest gathers of sharded weights (Lamy-Poirier 2023)",
          .least_virtual = 2,
          .most_virtual = 1 << 10,
          .actions = [](const ScheduleShape& shape, int rank) {
            std::vector<Action> out;
            const auto all = [&](int chunk, ActionKind kind) {
              for (int m = 0; m < shape.num_microbatches; ++m)
                out.push_back({static_cast<std::int16_t>(chunk * shape.num_ranks + rank), kind, m});
            };
            for (int c = 0; c < shape.virtual_stages; ++c) all(c, ActionKind::kF);
            for (int c = shape.virtual_stages - 1; c >= 0; --c) all(c, ActionKind::kB);
            return out;
          }};
}

}  // namespace sextant
