#pragma once
// In what order a pipeline works: schedules as lists of actions. No model, no cluster.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

/// What a stage does with a microbatch: forward, gradient of its input, gradients of its weights, or both backward
/// passes as one.
enum class ActionKind : std::uint8_t { kF, kI, kW, kB };

/// `2F3`: stage 2 runs the forward pass of microbatch 3. A mirrored stage `2'F3` is a second copy of stage 2 for a
/// pipeline that runs the other way; its microbatches are counted on their own. An overlapped pair `[0F3+3B1]` is two
/// neighbours with the same `pair` (counted per rank).
struct Action {
  std::int16_t stage = 0;
  ActionKind kind{};
  std::int32_t microbatch = 0;
  bool mirrored = false;
  std::int32_t pair = -1;
  bool operator==(const Action&) const = default;
};

/// What a schedule is asked for.
struct ScheduleShape {
  int num_ranks = 1;
  int num_microbatches = 1;  ///< of a step, both directions together
  int virtual_stages = 0;    ///< stages a rank; 0: the kind's own
  int group = 0;             ///< microbatches a chunk takes in turn (interleaved); 0: num_ranks
  /// Microbatches whose activations a rank may hold at once, by rank; empty: as many as there are ranks, on each.
  std::vector<int> most_live{};
};

/// Which stages a rank has.
enum class StageMap : std::uint8_t {
  kLoop,     ///< rank r: r, r + P, r + 2P ...
  kVee,      ///< rank r: r and 2P-1-r, so that the middle stages meet on the last rank and both ends on rank 0
  kMirrored  ///< rank r: stage r, and the mirrored stage P-1-r
};

struct Schedule {
  std::string kind;
  int num_ranks = 1, num_stages = 1;
  int num_microbatches = 1;  ///< of a step, both directions together
  bool is_mirrored = false;  ///< half of the microbatches run through mirrored stages
  std::vector<std::vector<Action>> by_rank;

  /// Microbatches that a stage sees.
  int microbatches_of_stage() const { return is_mirrored ? num_microbatches / 2 : num_microbatches; }
};

/// A schedule is one file that defines one function returning one of these; CMake finds it by its name.
struct ScheduleKind {
  std::string id;       ///< "1f1b"
  std::string summary;  ///< what it trades for what, one line, with its source
  StageMap stages = StageMap::kLoop;
  int least_virtual = 1, most_virtual = 1;  ///< stages a rank that it can have; the first is the default
  bool has_group = false;
  bool takes_most_live = false;
  /// Further rules that a shape breaks, each with the nearest valid value; may be null.
  std::vector<std::string> (*violations)(const ScheduleShape& shape) = nullptr;
  /// The actions of one rank. `shape` is complete (nothing left 0).
  std::vector<Action> (*actions)(const ScheduleShape& shape, int rank) = nullptr;
};

/// All kinds that the program knows, by id.
const std::vector<ScheduleKind>& schedule_kinds();
/// Throws InvalidInput with the nearest name.
const ScheduleKind& find_schedule(std::string_view id);

/// Fills in what is left 0.
ScheduleShape complete(const ScheduleKind& kind, ScheduleShape shape);
/// Every rule that a shape breaks, each with the nearest valid value; empty if none.
std::vector<std::string> violations(const ScheduleKind& kind, const ScheduleShape& shape);
/// The lists of all ranks as the kind makes them, for any shape: `violations` are the caller's to look at.
Schedule lay_out(const ScheduleKind& kind, const ScheduleShape& shape);
/// The schedule of a shape. Throws InvalidInput that lists the violations.
Schedule make_schedule(const ScheduleKind& kind, const ScheduleShape& shape);

/// What is wrong with the lists as such: an action missing or doubled, a backward pass in front of its forward pass, a
/// stage on two ranks. Each message starts with its rank. Empty for a sound schedule. Does not look for deadlocks: the
/// checker of programs does.
struct ScheduleFault {
  int rank = 0;
  std::string what;
};
std::vector<ScheduleFault> faults(const Schedule& schedule);

/// Whether every rank reaches the end of its list if it waits for what its actions need and for nothing else.
bool can_end(const Schedule& schedule);

std::string_view name_of(ActionKind kind);
std::string to_string(const Action& action);
/// "0F0 0F1 [0F3+3B1]".
std::string to_string(const std::vector<Action>& actions);

/// Reads a schedule from PyTorch's comma-separated notation: a row is a rank, a cell an action "2F3" (F, I, W, B) or an
/// overlapped pair "(0F3;3B1)OVERLAP_F_B"; empty cells are gaps. Mirrored stages "2'F3" are ours. Throws InvalidInput
/// with file:line and every fault.
Schedule parse_csv(std::string_view text, const std::string& file);
/// The same notation, without gaps.
std::string to_csv(const Schedule& schedule);
/// Whether an id is `csv:FILE`.
inline bool is_file(std::string_view id) { return id.substr(0, 4) == "csv:"; }
/// `csv:FILE` reads a file, any other id makes a schedule of that kind. A file fixes its shape: what `shape` says must
/// agree with it. Throws InvalidInput.
Schedule schedule_of(const std::string& id, const ScheduleShape& shape);

}  // namespace sextant
