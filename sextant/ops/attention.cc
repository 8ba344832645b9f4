#include "sextant/ops/attention.h"

#include <algorithm>

#include "sextant/base/errors.h"

namespace sextant {

std::vector<TensorSpec> Attention::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == 5, "attention takes q, k, v, first, last");
  check(in[0].size_of_dim('H') % in[1].size_of_dim('G') == 0, "heads are a multiple of kv heads");
  TensorSpec o{.dims = in[0].dims, .dtype = in[0].dtype}, lse = o;
  lse.dims.pop_back();
  return {o, lse};
}

std::variant<Row, Refusal> Attention::row(std::span<const TensorSpec> in, Axis axis, CpKind cp_kind) const {
  const Placement q = in[0].on(axis), k = in[1].on(axis), R = replicate();
  if (q.kind == Kind::kShard && q.dim == 'B') return Row{{q, q, q, q, q}, {q, q}};
  if (q.kind == Kind::kShard && q.dim == 'H') {
    const Placement kv = k.kind == Kind::kShard && k.dim == 'G' ? k : shard('G');
    return Row{{q, kv, kv, R, R}, {q, q}};
  }
  if (q.kind == Kind::kShard && q.dim == 'S') {
    const Placement heads = shard('H'), groups = shard('G');
    switch (cp_kind) {
      case CpKind::kAllGather:
        return Row{{q, copied(), copied(), q, q}, {q, q}};
      case CpKind::kUlysses:
        return Row{{heads, groups, groups, R, R}, {heads, heads}};
      case CpKind::kRing:
        return Refusal{"ring attention is not lowered yet; use cp_kind = \"all_gather\" or \"ulysses\""};
    }
  }
  if (q.kind == Kind::kShard) return Refusal{str("attention cannot be split over ", q.dim)};
  return Row{{R, R, R, R, R}, {R, R}};
}

Work Attention::work(Pass pass, std::span<const TensorSpec> local) const {
  const double queries = static_cast<double>(local[0].elements()),
               keys = static_cast<double>(local[1].size_of_dim('S'));
  // Two products forward; backward five: the scores again, dv, dp, dq, dk.
  const double full = (pass == Pass::kF ? 4.0 : 10.0) * queries * keys;
  const double causal = full * (keys + 1) / (2 * keys);
  const Bytes q = total_bytes(local.subspan(0, 1)), kv = total_bytes(local.subspan(1, 2));
  if (pass == Pass::kF) return {causal, full, q + kv, q};
  return {causal, full, q * 3 + kv, q + kv};
}

Bytes Attention::scratch(Pass pass, std::span<const TensorSpec> local, int threads) const {
  // A stripe of scores per thread: kStripe queries against the keys; two of them (p and dp) in the backward pass.
  const std::int64_t stripe = kStripe * local[1].size_of_dim('S') * size_of(local[0].dtype);
  return {threads * stripe * (pass == Pass::kF ? 1 : 2)};
}

}  // namespace sextant
