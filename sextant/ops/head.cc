#include "sextant/ops/head.h"

#include <algorithm>

#include "sextant/base/errors.h"
#include "sextant/base/slices.h"

namespace sextant {

std::vector<TensorSpec> Head::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 3 && !in[2].is_float(), "head takes x, w, labels");
  return {{.dtype = DType::kF64}};
}

std::variant<Row, Refusal> Head::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  const Placement x = in[0].on(axis), w = in[1].on(axis), R = replicate();
  if (w.kind == Kind::kShard && w.dim == in[1].dims[0].dim) {
    const std::vector<Inside> inside = {{"max", CollectiveKind::kAllReduce, "BS", 1},
                                        {"sum exp, target", CollectiveKind::kAllReduce, "BS", 2}};
    return Row{{copied(), w, R}, {R}, {}, inside};
  }
  if (w.kind == Kind::kShard) return Refusal{"the head's width cannot be split"};
  if (x.kind == Kind::kShard && !in[1].has(x.dim)) return Row{{x, copied(), follow(in[2], x)}, {partial()}};
  return Row{{R, R, R}, {R}};
}

Work Head::work(Pass pass, std::span<const TensorSpec> local) const {
  const double tokens = static_cast<double>(local[2].elements());
  const double product = 2 * tokens * static_cast<double>(local[1].elements());
  const Bytes x = total_bytes(local.subspan(0, 1)), w = total_bytes(local.subspan(1, 1));
  if (pass == Pass::kF) return {product, product, x + w, {}};
  // Stored logits pass through memory: written and read narrow, as float32 for maximum, sum and gradient.
  const std::int64_t logits = rule.stored_logits ? local[2].elements() * local[1].dims[0].size : 0;
  return {3 * product, 3 * product, x + w * 2 + Bytes{logits * 16}, x + w + Bytes{logits * 10}};
}

std::int64_t Head::chunk(std::int64_t tokens, std::int64_t vocabulary) {
  const std::int64_t fit = std::max<std::int64_t>(1, (std::int64_t{32} << 20) / 4 / vocabulary);
  const std::int64_t chunks = (tokens + fit - 1) / fit;
  return (tokens + chunks - 1) / chunks;
}

int Head::inside_calls(std::span<const TensorSpec> local) const {
  const std::int64_t tokens = local[2].elements(), rows = chunk(tokens, local[1].dims[0].size);
  return static_cast<int>((tokens + rows - 1) / rows);
}

Bytes Head::scratch(Pass pass, std::span<const TensorSpec> local, int) const {
  if (pass == Pass::kF) return {};
  const std::int64_t tokens = local[2].elements(), vocabulary = local[1].dims[0].size;
  // Whole logits, in the narrow type and as float32 for the loss.
  if (rule.stored_logits) return aligned({tokens * vocabulary * (size_of(local[0].dtype) + 4)});
  const std::int64_t rows = chunk(tokens, vocabulary);
  return aligned({rows * vocabulary * size_of(statistic_of(local[0].dtype))}) + Bytes{rows * 8};
}

std::vector<Product> Head::products(Pass pass, std::span<const TensorSpec> local) const {
  const auto tokens = static_cast<double>(local[2].elements());
  const auto vocabulary = static_cast<double>(local[1].dims[0].size);
  const double width = static_cast<double>(local[1].elements()) / vocabulary;
  if (pass == Pass::kF) return {{tokens, vocabulary, width}};
  return {{tokens, vocabulary, width}, {tokens, width, vocabulary}, {vocabulary, width, tokens}};
}

}  // namespace sextant
