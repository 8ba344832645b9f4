#pragma once
#include "sextant/base/slices.h"
#include "sextant/ops/op.h"

namespace sextant {

/// Changes a tensor's placement over one axis: the table of docs/placements.md. Input: the tensor, placed `from` over
/// the axis; output: the same tensor placed `to`.
class Convert final : public Op {
 public:
  /// `ranks`: length of the axis; `sequence`: how a sequence lies over it.
  Convert(Axis over, Placement before, Placement after, int ranks, Slices sequence = Slices::kContiguous)
      : axis(over), from(before), to(after), degree(ranks), slices(sequence) {}
  std::string_view kind() const override { return "convert"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override;
  std::variant<Row, Refusal> row(std::span<const TensorSpec>, Axis, CpKind) const override {
    return Refusal{"a conversion is placed by lowering"};
  }
  Needs needs(Pass) const override { return {}; }
  Work work(Pass, std::span<const TensorSpec>) const override { return {}; }
  /// The collective that does it; kNone for slices and padding, which move nothing.
  CollectiveKind collective() const;
  /// Bytes a rank receives, of a tensor placed as `before` says.
  Bytes bytes(const TensorSpec& before, const MeshSizes& mesh) const;
  /// Whether slices along `dim` of a tensor of this (local or whole) shape lie one behind the other, so that nothing
  /// has to be packed.
  bool is_contiguous(const TensorSpec& spec, Dim dim) const;
  /// The runs of `dim`, `whole` long, that rank `r` of the axis has.
  std::vector<Piece> pieces(Dim dim, std::int64_t whole, int r) const;
  /// Room for packed slices.
  Bytes scratch(Pass, std::span<const TensorSpec> local, int) const override;
  const Axis axis;
  const Placement from, to;
  const int degree;
  const Slices slices;
};

/// True if a tensor placed `from` can be used as `to` without any step: equal, or R used as C.
constexpr bool same_value(Placement from, Placement to) {
  return from == to || (from.kind == Kind::kReplicate && to.kind == Kind::kCopied);
}

/// dst += src: joins the gradients of two versions of one tensor. Input: src; output: dst, which must hold a value.
class Accumulate final : public Op {
 public:
  std::string_view kind() const override { return "accumulate"; }
  std::vector<TensorSpec> outputs(std::span<const TensorSpec> in) const override { return {in[0]}; }
  std::variant<Row, Refusal> row(std::span<const TensorSpec> in, Axis axis, CpKind) const override {
    return element_wise_row(in, axis);
  }
  Needs needs(Pass) const override { return {}; }
  Work work(Pass, std::span<const TensorSpec> local) const override;
};

}  // namespace sextant
