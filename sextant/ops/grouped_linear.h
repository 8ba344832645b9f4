#pragma once
#include "sextant/ops/op.h"

namespace sextant {

/// A product of each row with the matrix of its expert. Inputs: x[E X in], w[E out in], then b[E out] if given. Output:
/// y[E X out]. Over one axis: w S(E), experts held by different ranks, with the rows of theirs; w S(out) and w S(in)
/// split every expert, as a linear; w whole, each rank has its own rows.
class GroupedLinear final : public Op {
 public:
  explicit GroupedLinear(ProductType product_type = ProductType::kOwn) : type(product_type) {}
  std::string_view kind() const override { return "grouped_linear"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override;
  Needs needs(Pass pass) const override { return pass == Pass::kW ? Needs{{0}, {}} : Needs{{1}, {}}; }
  Pass gradient_pass(int input) const override { return input == 1 ? Pass::kW : Pass::kI; }
  bool is_product() const override { return true; }
  ProductType product_type() const override { return type; }
  Work work(Pass pass, std::span<const TensorSpec> local) const override;
  std::vector<Product> products(Pass pass, std::span<const TensorSpec> local) const override;
  const ProductType type;
};

}  // namespace sextant
