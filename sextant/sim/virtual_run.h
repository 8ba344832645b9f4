#pragma once
// A program run in virtual time: every coordinate follows its list, messages take time, nothing is computed.
#include "sextant/cost/price.h"
#include "sextant/program/program.h"
#include "sextant/trace/timeline.h"

namespace sextant {

/// Whether collectives run beside computation.
enum class Overlap : std::uint8_t {
  kDma,  ///< they do, and slow it down by Prices::interference
  kNone  ///< they are the rank's own work (a CPU)
};

/// What things take. Everything that has no price takes no time.
struct Prices {
  std::vector<std::vector<std::array<Seconds, 4>>> units;  ///< [pp][unit]: F, I, W, and B, which is I and W as one
  Seconds latency;                                         ///< from the start of a transfer to its end
  std::vector<std::vector<UnitPrice>> parts{};             ///< what the times of units are made of; may be empty
  std::vector<std::vector<BucketPrice>> buckets{};         ///< [pp][bucket]; may be empty
  std::vector<Seconds> optimizer{};                        ///< [pp]; may be empty
  Seconds count, norm;                                     ///< kCountTokens, kGradNorm
  Overlap overlap = Overlap::kDma;
  double interference = 0;  ///< computation takes so much longer while a collective runs
};
/// What a cluster takes for the program, its ranks laid out tp, cp, dp_shard, dp_replicate, pp from the inside.
Prices cluster_prices(const Program& program, const Cluster& cluster);
/// Disturbs prices: every pass of a unit on a coordinate takes factor[pp] times as long, messages `link` times; and
/// each pass of each unit is off by a share of its own, normal with deviation `jitter`, drawn from `seed`.
struct Disturbance {
  std::vector<double> factor;
  double link = 1, jitter = 0;
  std::uint64_t seed = 1;
};
void disturb(Prices& prices, const Disturbance& disturbance);
/// As if what goes over ep and etp were hidden by another microbatch's computation, which it slows down. No list of
/// ours does that yet; published stacks do.
void hide_experts(Prices& prices);

/// Each stage's share of a rank's time, equal for all its units: a rank with V stages takes `times` for one microbatch
/// through all of them.
Prices equal_prices(const Program& program, std::array<Seconds, 3> times, Seconds latency = {});

/// Means of what units took in a measured step (events that hold others and are no actions), by coordinate and pass.
Prices measured_prices(const Program& program, const Timeline& measured);
/// Share of a measured step, from its first unit's start to its last one's end, in which the coordinate that works most
/// does not: what RunReport::bubble_fraction is in virtual time.
double measured_bubble(const Timeline& measured);

struct Span {
  Seconds start, end;
};
struct VirtualRun {
  std::vector<std::vector<Span>> by_pp;  ///< per instruction; of a kWait while the rank waits
  Seconds makespan;                      ///< when the last list ends
  Seconds latency;                       ///< of its messages
};
/// Runs a program whose lists end (see `examine`): a transfer starts when it is sent and its receive is posted; a
/// coordinate computes one thing at a time, in its list's order. Throws InvalidInput, naming the circle, if coordinates
/// wait for each other.
VirtualRun run_virtually(const Program& program, const Prices& prices);

/// Where a coordinate's time goes when it does not compute.
struct Bubble {
  Seconds fill;        ///< before its first run
  Seconds activation;  ///< an activation was not made yet
  Seconds gradient;    ///< a gradient was not made yet
  Seconds message;     ///< it was made, and on its way
  Seconds send;        ///< an earlier message was not taken yet
  Seconds drain;       ///< behind its last run
  Seconds total() const { return fill + activation + gradient + message + send + drain; }
};
/// A run on the longest chain of runs, none of which could have started earlier than the one before it lets it.
struct PathStep {
  int pp = 0, instruction = 0;
};

/// What a run shows of the schedule.
struct RunReport {
  Seconds makespan, bubble;    ///< bubble: what is left of the makespan on the coordinate that works most
  double bubble_fraction = 0;  ///< of the makespan
  Seconds span_bubble;  ///< greatest, over coordinates, from first start to last end: what is left if steps overlap
  std::vector<Seconds> work;  ///< per coordinate
  std::vector<Bubble> bubbles;
  std::vector<int> peak_chunks;  ///< stages times microbatches whose activations live at once
  std::int64_t sends = 0;
  std::vector<PathStep> critical_path;  ///< in the order of time
};
RunReport report(const Program& program, const VirtualRun& run);

/// Where a step's time goes, on the coordinate that is busiest. The parts add up to the makespan.
struct Breakdown {
  int pp = 0;
  Seconds makespan;
  Seconds compute;    ///< kernels, as much of them as coordinates have on average
  Seconds imbalance;  ///< what this coordinate has more than the average
  Seconds optimizer;
  Seconds tp, cp, ep, dp, pipeline;  ///< communication that nothing hides: within layers, of buckets, between stages
  Seconds bubble;                    ///< waits for work that is not done yet
};
Breakdown break_down(const Program& program, const Prices& prices, const VirtualRun& run);

/// Activations that live: a change at a time, in order.
struct LiveSample {
  Seconds time;
  int chunks = 0;
  Bytes bytes;  ///< all that the program's memory walk counts
};
/// Of one coordinate. A sample behind each instruction that changes something.
std::vector<LiveSample> live_over_time(const Program& program, const VirtualRun& run, int pp);

/// Actions with their units within them, waits, messages with flows from each to the action that takes it, and what
/// lives.
Timeline timeline_of(const Program& program, const VirtualRun& run);

}  // namespace sextant
