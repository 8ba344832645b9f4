#include "sextant/ops/latent_attention.h"

#include "sextant/base/errors.h"
#include "sextant/ops/attention.h"

namespace sextant {

std::vector<TensorSpec> LatentAttention::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 6, "latent attention takes q, k, r, v, first, last");
  check(in[0].size_of_dim('K') == in[1].size_of_dim('N') + in[2].size_of_dim('R'), "a key is its two parts");
  TensorSpec o{.dims = in[3].dims, .dtype = in[0].dtype}, lse = o;
  lse.dims.pop_back();
  lse.dtype = statistic_of(o.dtype);
  return {o, lse};
}

std::variant<Row, Refusal> LatentAttention::row(std::span<const TensorSpec> in, Axis axis, CpKind cp_kind) const {
  const Placement q = in[0].on(axis), R = replicate(), C = copied();
  if (q.kind == Kind::kShard && q.dim == 'B') return Row{{q, q, q, q, q, q}, {q, q}};
  if (q.kind == Kind::kShard && q.dim == 'H') return Row{{q, q, C, q, R, R}, {q, q}};
  if (q.kind == Kind::kShard && q.dim == 'S') {
    const Placement heads = shard('H');
    if (cp_kind == CpKind::kAllGather) return Row{{q, C, C, C, q, q}, {q, q}};
    if (cp_kind == CpKind::kUlysses) return Row{{heads, heads, C, heads, R, R}, {heads, heads}};
    return Refusal{"ring attention is not lowered yet; use cp_kind = \"all_gather\" or \"ulysses\""};
  }
  return Row{{R, R, R, R, R, R}, {R, R}};
}

Work LatentAttention::work(Pass pass, std::span<const TensorSpec> local) const {
  // Forward: scores over K, values over U; backward: the scores again, dq and dk over K, dp and dv over U.
  const double q = static_cast<double>(local[0].elements()), v = static_cast<double>(local[3].elements());
  Work work =
      attention_work(pass == Pass::kF ? q + v : 3 * q + 2 * v, static_cast<double>(local[1].size_of_dim('S')), 0);
  const Bytes keys = total_bytes(local.subspan(1, 3)), queries = total_bytes(local.subspan(0, 1));
  work.read = pass == Pass::kF ? queries + keys : queries * 3 + keys;
  work.written = pass == Pass::kF ? queries : queries + keys;
  return work;
}

std::vector<Product> LatentAttention::products(Pass pass, std::span<const TensorSpec> local) const {
  const auto heads = static_cast<double>(local[0].size_of_dim('B') * local[0].size_of_dim('H'));
  const auto queries = static_cast<double>(local[0].size_of_dim('S'));
  const auto keys = static_cast<double>(local[0].last()), values = static_cast<double>(local[3].last());
  const double of_keys = pass == Pass::kF ? 1 : 3, of_values = pass == Pass::kF ? 1 : 2;
  const double seen = work(pass, local).flops_causal / (2 * heads * queries * (of_keys * keys + of_values * values));
  return {{queries, seen, keys, heads * of_keys}, {queries, seen, values, heads * of_values}};
}

}  // namespace sextant
