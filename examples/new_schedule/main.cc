// A new schedule is one file: eager_one_f_one_b.cc. It is drawn, checked and run in virtual time here beside 1F1B, with
// messages that take a quarter of a forward pass.
#include <iostream>

#include "sextant/program/examine.h"
#include "sextant/sim/virtual_run.h"
#include "sextant/trace/gantt.h"

namespace sextant {
ScheduleKind eager_one_f_one_b_schedule();
}

using namespace sextant;

namespace {

void show(const ScheduleKind& kind) {
  const Program program = build_program(make_schedule(kind, {.num_ranks = 4, .num_microbatches = 8}));
  const Examination checked = require_sound(program);
  const VirtualRun run = run_virtually(program, equal_prices(program, {Seconds{1}, {1}, {1}}, Seconds{0.25}));
  const RunReport numbers = report(program, run);
  std::cout << kind.id << ": " << kind.summary << "\n"
            << gantt_text(timeline_of(program, run), {.columns = 100}) << "sound, " << checked.least_slots
            << " buffer a pair; makespan " << numbers.makespan.value << ", bubble " << numbers.bubble.value
            << ", microbatches kept";
  for (const int peak : numbers.peak_chunks) std::cout << " " << peak;
  std::cout << "\n\n";
}

}  // namespace

int main() {
  show(find_schedule("1f1b"));
  show(eager_one_f_one_b_schedule());
}
