#include "sextant/ops/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sextant/base/errors.h"

namespace sextant {

std::vector<double> alibi_slopes(std::int64_t heads) {
  const auto whole = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<double> out;
  for (std::int64_t h = 0; h < whole; ++h)
    out.push_back(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(whole)));
  // The heads beyond a power of two take every other slope of twice as many.
  for (std::int64_t h = 0; whole + h < heads; ++h)
    out.push_back(std::exp2(-8.0 * static_cast<double>(2 * h + 1) / static_cast<double>(2 * whole)));
  return out;
}

std::vector<TensorSpec> Attention::outputs(std::span<const TensorSpec> in) const {
  check(in.size() == (rule.sinks ? 6 : 5), "attention takes q, k, v, first, last (and sinks)");
  check(in[0].size_of_dim('H') % in[1].size_of_dim('G') == 0, "heads are a multiple of kv heads");
  TensorSpec o{.dims = in[0].dims, .dtype = in[0].dtype}, lse = o;
  lse.dims.pop_back();
  lse.dtype = statistic_of(o.dtype);
  return {o, lse};
}

std::variant<Row, Refusal> Attention::row(std::span<const TensorSpec> in, Axis axis, CpKind cp_kind) const {
  const Placement q = in[0].on(axis), k = in[1].on(axis), R = replicate();
  const auto row = [&](std::vector<Placement> used, Placement out, Placement sinks) {
    if (rule.sinks) used.push_back(sinks);
    return Row{std::move(used), {out, out}};
  };
  if (q.kind == Kind::kShard && q.dim == 'B') return row({q, q, q, q, q}, q, copied());
  if (q.kind == Kind::kShard && (q.dim == 'H' || cp_kind == CpKind::kUlysses) && rule.alibi)
    return Refusal{"ALiBi slopes go by the head's number; heads cannot be split yet: use tp = 1 and no ulysses"};
  if (q.kind == Kind::kShard && q.dim == 'H') {
    const Placement kv = k.kind == Kind::kShard && k.dim == 'G' ? k : shard('G');
    return row({q, kv, kv, R, R}, q, q);
  }
  if (q.kind == Kind::kShard && q.dim == 'S') {
    const Placement heads = shard('H'), groups = shard('G');
    switch (cp_kind) {
      case CpKind::kAllGather:
        return row({q, copied(), copied(), q, q}, q, copied());
      case CpKind::kUlysses:
        return row({heads, groups, groups, R, R}, heads, heads);
      case CpKind::kRing:
        return Refusal{"ring attention is not lowered yet; use cp_kind = \"all_gather\" or \"ulysses\""};
    }
  }
  if (q.kind == Kind::kShard) return Refusal{str("attention cannot be split over ", q.dim)};
  return row({R, R, R, R, R}, R, R);
}

Work attention_work(double queries_times_widths, double keys, std::int64_t window) {
  const double full = 2 * queries_times_widths * keys;
  // Keys that a query sees: its own and those before, at most a window of them.
  const double w = window > 0 ? std::min(keys, static_cast<double>(window)) : keys;
  const double seen = w * (keys + (keys - w) + 1) / (2 * keys);
  return {full * seen / keys, full, {}, {}};
}

Work Attention::work(Pass pass, std::span<const TensorSpec> local) const {
  const double queries = static_cast<double>(local[0].elements());
  // Two products forward; backward five: the scores again, dv, dp, dq, dk.
  Work work =
      attention_work(queries * (pass == Pass::kF ? 2 : 5), static_cast<double>(local[1].size_of_dim('S')), rule.window);
  const Bytes q = total_bytes(local.subspan(0, 1)), kv = total_bytes(local.subspan(1, 2));
  work.read = pass == Pass::kF ? q + kv : q * 3 + kv;
  work.written = pass == Pass::kF ? q : q + kv;
  return work;
}

Bytes Attention::scratch(Pass pass, std::span<const TensorSpec> local, int threads) const {
  // A stripe of scores per thread: kStripe queries against the keys; two of them (p and dp) in the backward pass.
  const std::int64_t stripe = kStripe * local[1].size_of_dim('S') * size_of(local[0].dtype);
  return {threads * stripe * (pass == Pass::kF ? 1 : 2)};
}

std::vector<Product> Attention::products(Pass pass, std::span<const TensorSpec> local) const {
  const auto heads = static_cast<double>(local[0].size_of_dim('B') * local[0].size_of_dim('H'));
  const auto queries = static_cast<double>(local[0].size_of_dim('S')), width = static_cast<double>(local[0].last());
  const Work all = work(pass, local);
  const double calls = pass == Pass::kF ? 2 : 5;
  return {{queries, all.flops_causal / (2 * heads * queries * width * calls), width, heads * calls}};
}

}  // namespace sextant
