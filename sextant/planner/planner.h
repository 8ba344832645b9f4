#pragma once
// Finds the best plan of a space, and proves it: closed forms bound every plan from below, plans are simulated from the
// least bound on until no bound is below the best simulated time.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sextant/sim/forecast.h"

namespace sextant {

struct Request {
  ModelConfig model;
  Workload workload;
  Cluster cluster;
  int devices = 1;
  /// Devices of a pipeline coordinate that are slower by a factor; empty: all alike. For plans of so many coordinates.
  std::vector<double> slow{};
};

/// What is tried: every combination of these lists.
struct Space {
  std::vector<int> tp, cp, pp, ep{1}, etp{1}, virtual_stages, zero;
  /// With ZeRO 3 and no pipeline also replicas of shards that fill a level of so many devices (HSDP), so that gathers
  /// stay within it.
  std::vector<int> shard_levels;
  std::vector<std::int64_t> microbatch_sizes;
  std::vector<std::string> schedules;
  std::vector<Recompute> recomputes;
  /// Gradients that are summed over the zero axes leave in buckets of this size.
  Bytes bucket{256'000'000};
};
/// All degrees that divide the devices and that the model takes, cp as long as 1,024 tokens a rank are left, etp within
/// the innermost level; schedules 1f1b, interleaved, zb-h1, zb-v; no recomputation, that of norms and activations, and
/// full; ZeRO 0 to 3, and 3 within each level but the outermost.
Space space_of(const Request& request);

/// A plan by its numbers: what the closed form prices.
struct Candidate {
  std::int32_t dp = 1, tp = 1, cp = 1, pp = 1, ep = 1, etp = 1, virtual_stages = 1, zero = 0;
  std::int32_t replicas = 1;                 ///< of dp, those that do not shard
  std::int32_t schedule = 0, recompute = 0;  ///< in Space
  std::int32_t microbatch_size = 1, num_microbatches = 1;
  float bound = 0;   ///< seconds: no schedule of this plan ends sooner
  float memory = 0;  ///< bytes: at least so many on the coordinate that needs most
  /// Ranks that share dense parameters and experts, if they are sharded.
  int shards() const { return dp / replicas * cp; }
  int expert_shards() const { return shards() * tp / (ep * etp); }
};
Plan plan_of(const Candidate& candidate, const Space& space);

struct Ranked {
  Plan plan;
  Seconds bound;
  Forecast forecast;
  bool fits = true;
};

/// What became of the combinations of the space: considered = indivisible + memory + bounded + simulated.
struct Counts {
  std::int64_t considered = 0;
  std::int64_t indivisible = 0;  ///< devices, batch, layers or the schedule do not divide
  std::int64_t memory = 0;       ///< do not fit by the closed form
  std::int64_t bounded = 0;      ///< cannot be faster than the best
  std::int64_t simulated = 0;
  std::int64_t too_large = 0;  ///< of those, what does not fit after all
};
struct Answer {
  std::vector<Ranked> plans;      ///< that fit, best first
  std::optional<Ranked> closest;  ///< if none fits: the one that lacks least
  std::optional<Ranked> uneven;   ///< the best with stages of other sizes, if that is faster
  std::optional<Ranked> rule_of_thumb;
  Seconds bound;  ///< no plan that was not simulated is faster
  Counts counts;
  bool proved = true;  ///< the search ended by its bound, not by its limit
};
struct SearchOptions {
  int ranked = 8;            ///< plans that are wanted behind the best, simulated if need be
  int most_simulated = 400;  ///< then it gives up, and says so
};

/// The closed forms of a request: layers lowered and priced once for each way to split them. Request and space must
/// outlive it.
class Estimator {
 public:
  Estimator(const Request& request, const Space& space);
  ~Estimator();
  /// Bound and memory of a candidate; false if it is none (indivisible).
  bool price(Candidate& candidate) const;

 private:
  struct Tables;
  class Collectives;
  std::unique_ptr<Tables> tables_;
};

Answer search(const Request& request, const Space& space, const SearchOptions& options = {});
/// The plan that needs least memory, of the 24 that the closed form calls smallest.
std::optional<Ranked> least_memory(const Request& request, const Space& space);
/// Model parallel only until it fits: tp within the innermost level, then pp, ZeRO 1, rest dp; then ZeRO 3; then full
/// recomputation. Nothing if none of these fits.
std::optional<Ranked> rule_of_thumb(const Request& request, const Space& space);
Ranked simulate_plan(const Request& request, const Plan& plan);

/// Units of each stage such that the longest stage is as short as can be; `times` of the units in model order, `slow`
/// the factor of each stage (empty: 1).
std::vector<int> least_stages(const std::vector<double>& times, int num_stages, const std::vector<double>& slow = {});
/// The plan with stages of other sizes (the longest as short as can be; or layers dealt out evenly with embedding and
/// head on top), if one of them is faster. Plans of the search have stages that are balanced by number.
std::optional<Ranked> with_uneven_stages(const Request& request, const Ranked& best);

/// In words, the greatest differences of two forecasts: "+38 % tp that nothing hides, -3 % bubble".
std::string difference(const Forecast& of, const Forecast& against);

}  // namespace sextant
