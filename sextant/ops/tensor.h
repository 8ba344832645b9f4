#pragma once
// Named dims and placements: the vocabulary of the placement calculus (docs/placements.md).
#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sextant/base/dtype.h"
#include "sextant/base/units.h"

namespace sextant {

/// 'B' batch, 'S' sequence, 'D' width, 'H' heads, 'G' kv heads, 'K' head width, 'F' ffn, 'V' vocabulary, 'T' rows of a
/// position table, 'C' keys that scores are for; 'E' experts, 'A' experts that a token visits, 'X' rows of an expert.
/// A new op may bring a new letter.
using Dim = char;

enum class Kind : std::uint8_t {
  kReplicate,  ///< equal value, equal work
  kCopied,     ///< equal value, each rank uses it for its own part of the work; only where an op uses a tensor
  kShard,      ///< a slice of `dim`
  kPartial     ///< the value is the sum over the axis
};

/// Placement of a tensor over one mesh axis.
struct Placement {
  Kind kind = Kind::kReplicate;
  Dim dim = 0;              ///< kShard: which dim
  std::int32_t copies = 1;  ///< kShard: so many neighbours hold the same slice, each for other work (kv heads < tp)
  auto operator<=>(const Placement&) const = default;
};
constexpr Placement replicate() { return {}; }
constexpr Placement copied() { return {Kind::kCopied}; }
constexpr Placement partial() { return {Kind::kPartial}; }
constexpr Placement shard(Dim dim, int copies = 1) { return {Kind::kShard, dim, copies}; }

/// Placement of the gradient of a use whose placement is `used`: R->R, C->P, S->S, P->R. With copies, the gradient is
/// also partial within each run of `copies` neighbours.
constexpr Placement dual(Placement used) {
  if (used.kind == Kind::kCopied) return partial();
  if (used.kind == Kind::kPartial) return replicate();
  return used;
}

enum class Axis : std::uint8_t { kDpReplicate, kDpShard, kCp, kTp, kEdp, kEp, kEtp };
inline constexpr int kNumAxes = 7;
/// Two factorisations of the same ranks: dp_replicate, dp_shard, cp, tp | dp_replicate, edp, ep, etp.
enum class Grid : std::uint8_t { kDense, kExpert };
constexpr std::array<Axis, 4> axes_of(Grid grid) {
  if (grid == Grid::kDense) return {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};
  return {Axis::kDpReplicate, Axis::kEdp, Axis::kEp, Axis::kEtp};
}
constexpr bool has(Grid grid, Axis axis) {
  for (const Axis a : axes_of(grid))
    if (a == axis) return true;
  return false;
}
/// An axis's place in the order of its grid.
constexpr std::size_t index_of(Axis axis) {
  const auto a = static_cast<std::size_t>(axis);
  return a < 4 ? a : a - 3;
}
/// One placement per axis of the grid, outer axis first: that is how slices of one dim nest.
using Placements = std::array<Placement, 4>;

std::string_view name_of(Axis axis);
std::string to_string(Placement placement);

/// Length of each mesh axis.
struct MeshSizes {
  std::array<int, kNumAxes> degree{1, 1, 1, 1, 1, 1, 1};
  int operator[](Axis axis) const { return degree[static_cast<std::size_t>(axis)]; }
  int& operator[](Axis axis) { return degree[static_cast<std::size_t>(axis)]; }
  /// Ranks of one pipeline coordinate.
  int num_ranks() const { return degree[0] * degree[1] * degree[2] * degree[3]; }
};

struct Extent {
  Dim dim;
  std::int64_t size;
  bool dynamic = false;  ///< rows known at run time only (routed tokens)
  double room = 1;       ///< of these: `size` is so many times what is expected
};

struct TensorSpec {
  std::string name;
  std::vector<Extent> dims;  ///< logical sizes, row-major
  DType dtype = DType::kF32;
  Grid grid = Grid::kDense;
  Placements at{};

  bool has(Dim dim) const;
  std::int64_t size_of_dim(Dim dim) const;  ///< 1 if it has none
  std::int64_t last() const { return dims.back().size; }
  std::int64_t elements() const;  ///< logical
  /// Placement over an axis; replicate if the axis is not of this tensor's grid.
  Placement on(Axis axis) const;
  void place(Axis axis, Placement placement);
  bool is_float() const { return sextant::is_float(dtype); }
};

/// Size of a dim on one rank: the padded slice, so that all ranks of the axis have equal shapes.
std::int64_t local_size(const TensorSpec& spec, Dim dim, const MeshSizes& mesh);
std::int64_t local_elements(const TensorSpec& spec, const MeshSizes& mesh);
Bytes local_bytes(const TensorSpec& spec, const MeshSizes& mesh);
/// The spec with local sizes and no placement: what a kernel sees.
TensorSpec local(const TensorSpec& spec, const MeshSizes& mesh);
/// "[B 4 S 64 D 768] dp_shard S(B) tp S(D)"; axes of length 1 left out.
std::string to_string(const TensorSpec& spec, const MeshSizes& mesh);

}  // namespace sextant
