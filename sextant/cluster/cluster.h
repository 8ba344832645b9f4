#pragma once
// Where a plan runs: one kind of device, and the network between devices as levels, inner to outer.
#include <array>
#include <map>
#include <string>
#include <vector>

#include "sextant/base/dtype.h"
#include "sextant/base/units.h"
#include "sextant/base/value.h"

namespace sextant {

struct Device {
  std::string name;
  double bf16 = 0, fp8 = 0, fp32 = 0;    ///< FLOP/s, dense; fp8 0: has none
  double matmul_ceiling = 1;             ///< of the peak, the best product measured
  double fp8_ceiling = 1;                ///< the same in fp8
  double attention_ceiling = 1;          ///< of that, fused attention
  int units = 1;                         ///< that work on tiles at once
  std::array<double, 2> tile{128, 128};  ///< largest output tile of a product
  Bytes memory, reserve;                 ///< reserve: what no tensor gets (context, communicators)
  double bandwidth = 0;                  ///< of memory, B/s
  Seconds launch;                        ///< from one kernel to the next
  Seconds host;                          ///< of the host's work for an op, where it launches each one (eager)
  Seconds call;                          ///< to start a collective, beyond what its library's model says
  bool overlaps = true;                  ///< collectives run beside computation
  bool overlaps_layers = true;           ///< those within layers too; published stacks that do not, are priced without
  double interference = 0;               ///< and slow it by so much while they do
  double jitter = 0;                     ///< relative deviation of what a step of a unit takes
  double watts = 0, dollars_per_hour = 0;  ///< 0: not known
  /// Fitted to published runs (docs/validation.md), three for each device: the share of the matmul ceiling that a long
  /// step sustains, the share of memory bandwidth that passes over memory reach, and how long a contraction is at half
  /// speed.
  double sustained = 0.9, memory_share = 0.75, half_depth = 256;

  /// Rates measured for kernels, by "kind pass" ("swiglu F", "optimizer"): FLOP/s of attention and heads, else bytes of
  /// memory a second. What has none goes by the roofline above.
  std::map<std::string, double> rates{};

  double peak(DType dtype) const { return dtype == DType::kBf16 ? bf16 : dtype == DType::kF32 ? fp32 : fp32 / 2; }
};

/// Device::host of eager software: some five kernels an op, at about 10 us of Python and dispatcher each. Round, not
/// fitted.
inline constexpr Seconds kEagerHost{50e-6};

/// Devices that are joined in one way: by switches, a mesh, or a torus.
struct Level {
  std::string name;
  int size = 1;          ///< devices that it joins, those of inner levels included
  double bandwidth = 0;  ///< B/s, one way, of a device
  double pair = 0;       ///< B/s between two devices of a mesh; 0: the whole bandwidth
  /// Of the bandwidth, what large messages reach.
  double all_reduce = 1, all_gather = 1, all_to_all = 1;
  double in_network = 0;  ///< all-reduce by the switches, of the bandwidth; 0: they cannot
  int in_network_least = 2;
  std::array<Seconds, 3> latency{};  ///< of a hop, by protocol: low latency, 128-byte lines, bulk

  std::vector<int> shape;  ///< of a torus; else empty
  double link = 0;         ///< B/s one way of a link of the torus
  int wrap = 1;            ///< an axis of a multiple of so many is a ring
  Seconds hop;
  bool is_torus() const { return !shape.empty(); }
};

struct Cluster {
  static constexpr std::size_t kMostLevels = 6;
  std::string name;
  Device device;
  std::vector<Level> levels;  ///< inner to outer
  int most_devices() const { return levels.back().size; }
};

/// Reads a cluster file (docs/clusters.md). Throws InvalidInput with file, line, what was found and what is valid.
Cluster read_cluster(const std::string& text, const std::string& file);
/// The file again.
std::string to_text(const Cluster& cluster, const std::vector<std::string>& notes);
/// A preset of specs/clusters, or the path of a file. Throws InvalidInput with the nearest name.
Cluster find_cluster(const std::string& name_or_path);

struct ClusterPreset {
  std::string name, text;
};
const std::vector<ClusterPreset>& cluster_presets();

}  // namespace sextant
