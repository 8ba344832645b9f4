#include "sextant/ops/unfused_attention.h"

#include "sextant/base/errors.h"

namespace sextant {
namespace {

// The row of a product per head: `heads` has H (or a slice of what else), `groups` has the kv heads that belong to it.
std::variant<Row, Refusal> row_of(Placement heads, Placement groups) {
  if (heads.kind != Kind::kShard) return Row{{replicate(), replicate()}, {replicate()}};
  if (heads.dim == 'B') return Row{{heads, heads}, {heads}};
  if (heads.dim == 'S') return Row{{heads, copied()}, {heads}};
  if (heads.dim == 'H') {
    const bool split = groups.kind == Kind::kShard && groups.dim == 'G';
    return Row{{heads, split ? groups : shard('G')}, {heads}};
  }
  return Refusal{str("attention cannot be split over ", heads.dim)};
}

// All scores are computed, masked or not: one product forward, two backward.
Work product_work(Pass pass, std::int64_t scores, std::int64_t width, Bytes narrow, Bytes wide) {
  const double flops = 2.0 * static_cast<double>(scores) * static_cast<double>(width) * (pass == Pass::kF ? 1 : 2);
  return {flops, flops, narrow + wide, pass == Pass::kF ? wide : narrow};
}

}  // namespace

std::vector<TensorSpec> Scores::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 && in[0].size_of_dim('H') % in[1].size_of_dim('G') == 0, "scores takes q, k");
  return {{.dims = {{'B', in[0].size_of_dim('B')},
                    {'H', in[0].size_of_dim('H')},
                    {'S', in[0].size_of_dim('S')},
                    {'C', in[1].size_of_dim('S')}},
           .dtype = in[0].dtype}};
}

std::variant<Row, Refusal> Scores::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  return row_of(in[0].on(axis), in[1].on(axis));
}

Work Scores::work(Pass pass, std::span<const TensorSpec> local) const {
  const std::int64_t scores = local[0].elements() / local[0].size_of_dim('K') * local[1].size_of_dim('S');
  return product_work(pass, scores, local[0].size_of_dim('K'), total_bytes(local.subspan(0, 2)),
                      {scores * size_of(local[0].dtype)});
}

Work Softmax::work(Pass pass, std::span<const TensorSpec> local) const {
  const double n = static_cast<double>(local[0].elements());
  const Bytes x = total_bytes(local.subspan(0, 1));
  return {5 * n, 5 * n, pass == Pass::kF ? x : x * 2, x};
}

std::vector<TensorSpec> Context::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 2 && in[0].dims.size() == 4, "context takes p, v");
  return {{.dims = {{'B', in[0].size_of_dim('B')},
                    {'S', in[0].size_of_dim('S')},
                    {'H', in[0].size_of_dim('H')},
                    {'K', in[1].size_of_dim('K')}},
           .dtype = in[0].dtype}};
}

std::variant<Row, Refusal> Context::row(std::span<const TensorSpec> in, Axis axis, CpKind) const {
  return row_of(in[0].on(axis), in[1].on(axis));
}

Work Context::work(Pass pass, std::span<const TensorSpec> local) const {
  const Bytes p = total_bytes(local.subspan(0, 1)), v = total_bytes(local.subspan(1, 1));
  return product_work(pass, local[0].elements(), local[1].size_of_dim('K'), v, p);
}

namespace {

// A product per head: queries by keys by width, in whichever order a pass has them; a backward pass makes two.
std::vector<Product> per_head(Pass pass, double heads, double queries, double keys, double width) {
  if (pass == Pass::kF) return {{queries, keys, width, heads}};
  return {{queries, width, keys, heads}, {keys, width, queries, heads}};
}

}  // namespace

std::vector<Product> Scores::products(Pass pass, std::span<const TensorSpec> local) const {
  return per_head(pass, static_cast<double>(local[0].size_of_dim('B') * local[0].size_of_dim('H')),
                  static_cast<double>(local[0].size_of_dim('S')), static_cast<double>(local[1].size_of_dim('S')),
                  static_cast<double>(local[0].size_of_dim('K')));
}

std::vector<Product> Context::products(Pass pass, std::span<const TensorSpec> local) const {
  const auto heads = static_cast<double>(local[0].size_of_dim('B') * local[0].size_of_dim('H'));
  const auto queries = static_cast<double>(local[0].size_of_dim('S')), keys = static_cast<double>(local[0].last()),
             width = static_cast<double>(local[1].size_of_dim('K'));
  if (pass == Pass::kF) return {{queries, width, keys, heads}};
  return {{queries, keys, width, heads}, {keys, width, queries, heads}};
}

}  // namespace sextant
