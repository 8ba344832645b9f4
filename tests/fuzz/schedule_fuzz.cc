#include "sextant/base/errors.h"
#include "sextant/program/examine.h"
#include "sextant/sim/virtual_run.h"

// A file of actions is refused with a message, or is a schedule: its program ends in virtual time, or the checker says
// who waits for whom.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace sextant;
  try {
    const Schedule schedule = parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz");
    check(to_csv(parse_csv(to_csv(schedule), "again")) == to_csv(schedule), "what is written is read as it was");
    const Program program = build_program(schedule);
    const Examination e = examine(program);
    check(e.violations.empty() == can_end(schedule), "the checker finds a circle where there is one, and nothing else");
    if (e.violations.empty()) report(program, run_virtually(program, equal_prices(program, {Seconds{1}, {1}, {1}})));
  } catch (const InvalidInput&) {
  }
  return 0;
}
