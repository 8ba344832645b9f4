#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// y = x w^T (+ b). Inputs: x, w, optionally b. Dims that x and w share are contracted and stand last in both, in the
/// same order; the other dims of w come first and are those of b and the last of y: x[B S D] w[H K D] -> y[B S H K].
class Linear final : public Op {
 public:
  /// `output`: what the dim that w brings is called in y, if it is another than in w (a square product).
  explicit Linear(ProductType product_type = ProductType::kOwn, Dim output = 0) : type(product_type), renamed(output) {}
  std::string_view kind() const override { return "linear"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass pass) const override;
  bool is_product() const override { return true; }
  ProductType product_type() const override { return type; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
  Pass gradient_pass(int input) const override { return input == 0 ? Pass::kI : Pass::kW; }
  const ProductType type;
  const Dim renamed;
};

/// The product as matrices: y[m n] = x[m k] w[n k]^T.
struct MatrixSizes {
  std::int64_t m, n, k;
};
MatrixSizes matrix_sizes(const TensorSpec& x, const TensorSpec& w);

}  // namespace sextant
