#pragma once
// A layer as data: a short list of ops over tensors with named dims.
#include <string>
#include <vector>

#include "sextant/ops/op.h"

namespace sextant {

/// How a parameter starts; drawn by logical name and element, so equal under every layout.
struct Initial {
  enum class Kind : std::uint8_t { kNormal, kOnes, kZeros } kind = Kind::kZeros;
  double deviation = 0;
};

/// Where a parameter lives in a Hugging Face file: in tensor `name`, whose stored matrix is [in, out] if `transposed`.
/// Its rows (along the output dim) lie there in blocks of `block`, one each `stride` rows, from row `offset` on: q, k
/// and v may be bands of one tensor, or take turns in it.
struct FileTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool transposed = false;
  std::int64_t offset = 0, block = 0, stride = 0;  ///< block 0: the tensor is the parameter
  std::int64_t row(std::int64_t r) const { return block == 0 ? r : offset + r / block * stride + r % block; }
};

struct Parameter {
  TensorSpec spec;  ///< logical name "L07.q.w", named dims
  Initial initial;
  bool is_matrix = false;  ///< of a product or an embedding: weight decay applies
  bool is_shared = false;  ///< owned by an earlier layer (a tied head)
  FileTensor file;
};

enum class Role : std::uint8_t { kParameter, kData, kBoundary, kValue };  ///< kData: made by the loader
struct LayerTensor {
  TensorSpec spec;
  Role role = Role::kValue;
  int parameter = -1;
};
struct Node {
  OpPtr op;
  std::vector<int> in, out;  ///< indices into Layer::tensors
};
struct Layer {
  std::string name;  ///< "embed", "L07", "head"
  int index = -1;    ///< of the transformer layer; -1 for embedding and head
  int like = -1;     ///< layers of the same number >= 0 differ in their names only
  std::vector<LayerTensor> tensors;
  std::vector<Parameter> parameters;
  std::vector<Node> nodes;
  int input = -1, output = -1;  ///< boundary tensors; -1 if it has none
};

/// Sizes that the workload gives: sequences of one microbatch over all data-parallel ranks, tokens of a sequence.
struct Sizes {
  std::int64_t batch = 1, sequence = 1;
  DType dtype = DType::kF32;
};

/// Builds a Layer op by op. Methods return tensor indices.
class LayerBuilder {
 public:
  LayerBuilder(std::string name, int index, Sizes sizes);
  int input(std::string dims, std::vector<std::int64_t> sizes);  ///< the boundary tensor from the layer before
  int data(const std::string& name, DType dtype);                ///< [B S], made by the loader
  int parameter(Parameter parameter);  ///< spec.name is completed to "layer.name" unless shared
  int apply(const OpPtr& op, std::vector<int> in, const std::string& name);  ///< returns output 0
  Layer finish(int output);
  int index() const { return layer_.index; }
  const std::string& name() const { return layer_.name; }
  TensorSpec& spec(int tensor) { return layer_.tensors[static_cast<std::size_t>(tensor)].spec; }

 private:
  int add(LayerTensor tensor);
  Layer layer_;
  Sizes sizes_;
};

}  // namespace sextant
