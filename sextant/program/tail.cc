#include "sextant/program/passes.h"

namespace sextant {

void add_tail(const Program& program, RankProgram& rank, Tickets& tickets) {
  rank.code.insert(rank.code.begin(), {.code = Code::kCountTokens});
  const auto num_buckets = static_cast<std::int32_t>(rank.buckets.size());
  for (std::int32_t b = 0; b < num_buckets; ++b)
    if (!rank.buckets[static_cast<std::size_t>(b)].rest.empty())
      rank.code.push_back({.code = Code::kReduceRest, .bucket = b});
  for (const Code code : {Code::kGradNorm, Code::kDecide, Code::kOptStep}) rank.code.push_back({.code = code});
  std::vector<std::int32_t> gathers;
  for (std::int32_t b = 0; b < num_buckets; ++b) {
    if (!program.hands_out(rank.buckets[static_cast<std::size_t>(b)])) continue;
    gathers.push_back(tickets.next());
    rank.code.push_back({.code = Code::kGatherParams, .bucket = b, .waits_for = gathers.back()});
  }
  for (const std::int32_t gather : gathers) rank.code.push_back({.code = Code::kWait, .waits_for = gather});
}

}  // namespace sextant
