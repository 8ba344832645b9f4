#include "sextant/ops/op.h"

#include "sextant/base/errors.h"

namespace sextant {

std::string_view name_of(Pass pass) {
  constexpr std::string_view names[] = {"F", "I", "W"};
  return names[static_cast<std::size_t>(pass)];
}

std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view names[] = {"none", "all_reduce", "reduce_scatter", "all_gather", "all_to_all"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(CpKind kind) {
  constexpr std::string_view names[] = {"ring", "all_gather", "ulysses"};
  return names[static_cast<std::size_t>(kind)];
}

Bytes received_bytes(CollectiveKind kind, Bytes whole, int n) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {std::int64_t{2} * (n - 1) * whole.value / n};
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
      return {(n - 1) * whole.value / n};
    case CollectiveKind::kAllToAll:
      return {(n - 1) * whole.value / n / n};
    case CollectiveKind::kNone:
      break;
  }
  return {};
}

Work& Work::operator+=(const Work& o) {
  flops_causal += o.flops_causal, flops_full += o.flops_full;
  read += o.read, written += o.written;
  return *this;
}

Bytes total_bytes(std::span<const TensorSpec> specs) {
  Bytes total;
  for (const TensorSpec& s : specs) total += Bytes{s.elements() * size_of(s.dtype)};
  return total;
}

double room_of(std::span<const TensorSpec> in) {
  for (const TensorSpec& spec : in)
    for (const Extent& e : spec.dims)
      if (e.dynamic) return e.room;
  return 1;
}

std::string to_string(const std::variant<Row, Refusal>& row) {
  if (const auto* refusal = std::get_if<Refusal>(&row)) return "refused: " + refusal->why;
  std::string out;
  for (const Placement p : std::get<Row>(row).in) out += to_string(p) + " ";
  out += "->";
  for (const Placement p : std::get<Row>(row).out) out += " " + to_string(p);
  return out;
}

Placement follow(const TensorSpec& integers, Placement p) {
  return p.kind == Kind::kShard && integers.has(p.dim) ? shard(p.dim) : replicate();
}

std::variant<Row, Refusal> element_wise_row(std::span<const TensorSpec> in, Axis axis, std::size_t num_outputs) {
  // The first float input leads; a partial sum must be completed before anything that is not linear touches it.
  Placement lead = in[0].on(axis);
  if (lead.kind != Kind::kShard) lead = replicate();
  Row row;
  for (const TensorSpec& t : in) {
    if (!t.is_float())
      row.in.push_back(follow(t, lead));
    else if (lead.kind == Kind::kReplicate)
      row.in.push_back(replicate());
    else
      row.in.push_back(t.has(lead.dim) ? lead : copied());
  }
  row.out.assign(num_outputs, lead);
  return row;
}

}  // namespace sextant
