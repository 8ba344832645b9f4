#pragma once
// What an op kind declares about itself, once, for everybody: the lowering, the cost model and the kernels.
#include <memory>
#include <string_view>
#include <variant>

#include "sextant/ops/tensor.h"

namespace sextant {

enum class Pass : std::uint8_t { kF, kI, kW };  ///< forward, input gradient, weight gradient
std::string_view name_of(Pass pass);

enum class CollectiveKind : std::uint8_t { kNone, kAllReduce, kReduceScatter, kAllGather, kAllToAll };
std::string_view name_of(CollectiveKind kind);
/// Bytes one rank of `n` receives when the whole tensor has `whole` bytes (docs/placements.md). Exact when n
/// divides the tensor; else the mean over ranks.
Bytes received_bytes(CollectiveKind kind, Bytes whole, int n);

/// Bytes that a rank receives in `calls` collectives.
struct Traffic {
  CollectiveKind kind = CollectiveKind::kNone;
  Axis axis = Axis::kTp;
  int calls = 0;
  Bytes bytes;  ///< the mean over ranks where slices do not divide
  /// Of an all-reduce: so many rows of `per_row` elements, in `calls` parts of equal numbers of rows (the last one
  /// less).
  std::int64_t rows = 0;
  int per_row = 1;
  DType dtype = DType::kF32;
};

/// A collective inside a kernel, on a tensor of statistics: `per_element` values for each element of `dims`.
struct Inside {
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string dims;
  int per_element = 1;
};

/// What an op accepts and yields over one axis.
struct Row {
  std::vector<Placement> in, out;
  std::vector<Inside> inside_f, inside_i;
};
struct Refusal {
  std::string why;
};

/// How attention splits the sequence over cp.
enum class CpKind : std::uint8_t { kRing, kAllGather, kUlysses };
std::string_view name_of(CpKind kind);
/// Which part of the sequence a cp rank has: slice r of n; or chunks r and 2n-1-r of 2n, so that causal attention is
/// the same work for all (Llama 3, 2024).
enum class Slices : std::uint8_t { kContiguous, kZigzag };

struct Work {
  double flops_causal = 0;  ///< masked-out scores not counted
  double flops_full = 0;    ///< all S x S scores counted, as most published utilisations do
  Bytes read, written;
  Work& operator+=(const Work& o);
};

/// What a product multiplies in: the type of its tensors, or fp8, into which both sides are cast first. Priced only.
enum class ProductType : std::uint8_t { kOwn, kFp8 };

/// `count` matrix products of [m k] and [k n].
struct Product {
  double m = 0, n = 0, k = 0, count = 1;
  double flops() const { return 2 * m * n * k * count; }
};

/// Which inputs and outputs a backward pass reads, besides the gradient of output 0.
struct Needs {
  std::vector<int> in, out;
};

/// An op kind with its attributes; immutable. Output 0 is the result and carries the gradient; further outputs are
/// statistics kept for the backward pass. Integer inputs have no gradient.
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view kind() const = 0;
  /// Logical specs of the outputs; names and placements are the caller's. Throws InternalError on wrong shapes.
  virtual std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const = 0;
  /// Forward placements over `axis`, chosen by the weight and the inputs as they are.
  virtual std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind cp_kind) const = 0;
  virtual Needs needs(Pass pass) const = 0;
  /// FLOPs and bytes of a pass on one rank; `local` are the inputs as the rank holds them.
  virtual Work work(Pass pass, std::span<const TensorSpec> local) const = 0;
  /// The pass that makes the gradient of an input: W for the weights of matrix products, I for all else.
  virtual Pass gradient_pass(int) const { return Pass::kI; }
  /// The pass that makes the outputs in training: I for a head whose forward pass is empty.
  virtual Pass result_pass() const { return Pass::kF; }
  /// The matrix products of a pass, as its kernels make them, for prices by shape. Empty: a pass over memory.
  virtual std::vector<Product> products(Pass, std::span<const TensorSpec>) const { return {}; }
  /// Whether its FLOPs count as the model's in published utilisations: products and attention.
  virtual bool is_product() const { return false; }
  virtual ProductType product_type() const { return ProductType::kOwn; }
  /// Calls that the collectives inside a kernel are made in; `local` are the inputs as the rank holds them.
  virtual int inside_calls(std::span<const TensorSpec>) const { return 1; }
  /// Workspace that the kernels of this pass use, bytes on a rank of `threads` threads.
  virtual Bytes scratch(Pass, std::span<const TensorSpec>, int) const { return {}; }
};
using OpPtr = std::shared_ptr<const Op>;

Bytes total_bytes(std::span<const TensorSpec> specs);
/// How many times the expected rows there is room for in an op's inputs: 1 unless rows are known at run time only.
double room_of(std::span<const TensorSpec> in);

/// "S(B) C -> S(B)", or "refused: ...".
std::string to_string(const std::variant<Row, Refusal>& row);

/// The row of an op that treats every element alike: all inputs of the same shape in one placement S or R, integer
/// inputs sliced the same way where they have the dim, vectors of the last dims (biases) copied where they are whole.
std::variant<Row, Refusal> element_wise_row(std::span<const TensorSpec> in, Axis axis, std::size_t num_outputs = 1);
/// Placement of an integer input [B S ...] that follows a tensor placed `p`.
Placement follow(const TensorSpec& integers, Placement p);

}  // namespace sextant
