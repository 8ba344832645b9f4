#include <map>

#include "sextant/program/events.h"
#include "sextant/program/messages.h"
#include "sextant/sim/virtual_run.h"

namespace sextant {
Timeline timeline_of(const Program& program, const VirtualRun& run) {
  Timeline out;
  const MessageNumbers numbers(program);
  std::vector<std::int32_t> transfer(numbers.count(), -1);  // by message: its event
  std::vector<std::int32_t> taker(numbers.count(), -1);     // by message: the event of the run that takes it
  std::vector<Seconds> posted(numbers.count()), sent(numbers.count());
  for (int pp = 0; pp < static_cast<int>(program.by_pp.size()); ++pp) {
    const RankProgram& list = program.by_pp[static_cast<std::size_t>(pp)];
    const std::vector<Span>& spans = run.by_pp[static_cast<std::size_t>(pp)];
    std::vector<std::size_t> waited;  // messages that the next run takes
    std::int32_t action = -1;         // event of the action that is under way
    for (std::size_t i = 0; i < list.code.size(); ++i) {
      const Instruction& instruction = list.code[i];
      const Span& span = spans[i];
      switch (instruction.code) {
        case Code::kRun: {
          const auto add = [&](Event event) {
            event.start = span.start, event.end = span.end, event.rank = pp;
            out.events.push_back(std::move(event));
          };
          Event own = action_event(list, instruction);
          if (action < 0 || out.events[static_cast<std::size_t>(action)].what != own.what) {
            action = static_cast<std::int32_t>(out.events.size());
            add(std::move(own));
            for (const std::size_t n : waited) taker[n] = action;
            waited.clear();
          }
          out.events[static_cast<std::size_t>(action)].end = span.end;
          add(unit_event(list, instruction));
          break;
        }
        case Code::kSend:
          sent[numbers.of(list, instruction)] = span.start;
          transfer[numbers.of(list, instruction)] = static_cast<std::int32_t>(out.events.size());
          out.events.push_back({.what = to_string(list, instruction),
                                .start = span.start,
                                .end = span.start,
                                .rank = pp,
                                .stream = Stream::kMessages,
                                .kind = EventKind::kTransfer});
          break;
        case Code::kRecv:
          posted[numbers.of(list, instruction)] = span.start;
          break;
        case Code::kWait: {
          const Instruction& of = list.code[static_cast<std::size_t>(instruction.waits_for)];
          if (of.code == Code::kRecv) waited.push_back(numbers.of(list, of));
          if (span.end > span.start)
            out.events.push_back({.what = to_string(list, instruction),
                                  .start = span.start,
                                  .end = span.end,
                                  .rank = pp,
                                  .kind = EventKind::kWait});
          break;
        }
        default:
          if (span.end > span.start)
            out.events.push_back(
                {.what = to_string(list, instruction), .start = span.start, .end = span.end, .rank = pp});
          break;
      }
    }
  }
  for (std::size_t n = 0; n < numbers.count(); ++n) {
    if (transfer[n] < 0) continue;
    Event& e = out.events[static_cast<std::size_t>(transfer[n])];
    e.start = std::max(sent[n], posted[n]);
    e.end = e.start + run.latency;
    if (taker[n] >= 0) out.flows.push_back({transfer[n], taker[n]});
  }
  for (int pp = 0; pp < static_cast<int>(program.by_pp.size()); ++pp)
    for (const LiveSample& s : live_over_time(program, run, pp)) {
      out.counts.push_back({"live chunks", s.time, static_cast<double>(s.chunks), pp});
      out.counts.push_back({"live bytes", s.time, static_cast<double>(s.bytes.value), pp});
    }
  return out;
}

}  // namespace sextant
