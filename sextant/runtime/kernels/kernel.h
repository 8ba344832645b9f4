#pragma once
// Kernels: functions that run one pass of one op kind on one rank, and the table that finds them.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "sextant/ops/op.h"
#include "sextant/runtime/kernels/team.h"

namespace sextant {

/// A tensor in memory: data and its local spec (sizes of this rank).
struct View {
  void* data = nullptr;
  const TensorSpec* spec = nullptr;
  /// Of a weight whose first dim is split over ranks: the logical number of its first row, and of all rows; 0, 0 if it
  /// is whole. Slices are equal, so the last rows may lie beyond the end: those are padding.
  std::int64_t first_row = 0, all_rows = 0;
  std::int64_t copies = 1;  ///< so many ranks hold the same slice, each for other work
  /// Rows that are no padding, of `rows` here.
  std::int64_t real_rows(std::int64_t rows) const {
    return all_rows == 0 ? rows : std::max<std::int64_t>(0, std::min(rows, all_rows - first_row));
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  std::int64_t size(Dim dim) const { return spec->size_of_dim(dim); }
  std::int64_t elements() const { return spec->elements(); }
  /// Product of the last `n` dims, and of all before them.
  std::int64_t last(std::size_t n) const;
  std::int64_t rows(std::size_t n) const { return elements() / last(n); }
};

/// Completes, within a kernel, what each rank has of a sum (or of a maximum) over the axis that splits its tensors.
class AcrossRanks {
 public:
  virtual ~AcrossRanks() = default;
  virtual void sum(void* data, std::int64_t count, DType dtype) = 0;
  virtual void greatest(void* data, std::int64_t count, DType dtype) = 0;
};

/// Reads and writes are in the order of a program Step. A null write is one that this pass does not make. `add[i]`:
/// write i holds an earlier contribution, to which this one is added.
struct KernelCall {
  const Op& op;
  Pass pass;
  std::span<const View> reads, writes;
  std::span<const bool> add;
  void* scratch = nullptr;  ///< as large as the op says
  Team& team;
  std::uint64_t seed = 0;         ///< of dropout masks
  double loss_scale = 1;          ///< 1 / valid tokens of the step: seeds the gradient of the loss
  AcrossRanks* across = nullptr;  ///< null unless the step has collectives inside
};
using Kernel = void (*)(const KernelCall&);

class KernelTable {
 public:
  void add(std::string kind, Pass pass, Kernel f32, Kernel f64);
  /// Throws InvalidInput if no kernel of this kind, pass and dtype is there.
  Kernel find(std::string_view kind, Pass pass, DType dtype) const;

 private:
  std::map<std::pair<std::string, Pass>, std::pair<Kernel, Kernel>> kernels_;
};

/// All kernels of this folder; the list of files is made by CMake.
KernelTable builtin_kernels();

}  // namespace sextant
