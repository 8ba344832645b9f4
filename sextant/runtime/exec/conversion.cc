#include "sextant/runtime/exec/conversion.h"

#include <cstring>
#include <numeric>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const TensorSpec& spec) {
  Sizes out;
  for (const Extent& e : spec.dims) out.push_back(e.size);
  return out;
}
std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}
std::size_t place_of(const TensorSpec& spec, Dim dim) {
  for (std::size_t i = 0; i < spec.dims.size(); ++i)
    if (spec.dims[i].dim == dim) return i;
  throw InternalError("a tensor is sliced along a dim that it has");
}

// A block of a tensor: its sizes, and where it starts in each dim.
struct Place {
  std::byte* data;
  Sizes sizes, start;
};

// Copies a block of these sizes from one tensor to another.
void copy_block(const Sizes& block, const Place& from, const Place& to, std::int64_t unit) {
  // The innermost dims that are whole in both are one run.
  std::size_t last = block.size();
  std::int64_t run = unit;
  while (last > 0) {
    --last;
    run *= block[last];
    if (block[last] != from.sizes[last] || block[last] != to.sizes[last]) break;
  }
  const auto offset = [&](const Place& p, const Sizes& at) {
    std::int64_t n = 0;
    for (std::size_t d = 0; d < block.size(); ++d) n = n * p.sizes[d] + p.start[d] + at[d];
    return n * unit;
  };
  Sizes at(block.size(), 0);
  if (product(block) == 0) return;
  for (;;) {
    std::memcpy(to.data + offset(to, at), from.data + offset(from, at), static_cast<std::size_t>(run));
    std::size_t d = last;
    while (d > 0 && ++at[d - 1] == block[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

void run_conversion(const Convert& op, const View& in, const View& out, Communicator& axis, void* scratch,
                    const Site& site) {
  const std::int64_t unit = size_of(in.spec->dtype);
  const int n = axis.size(), me = axis.rank();
  const auto bytes = [&](const View& v) { return static_cast<std::size_t>(v.elements() * unit); };
  const auto payload_of = [&](void* data, std::int64_t count) { return Payload{data, count, in.spec->dtype}; };
  const Sizes in_sizes = sizes_of(*in.spec), out_sizes = sizes_of(*out.spec);
  const Sizes zero(in_sizes.size(), 0);
  auto* in_data = static_cast<std::byte*>(in.data);
  auto* out_data = static_cast<std::byte*>(out.data);
  auto* packed = static_cast<std::byte*>(scratch);
  const auto shifted = [&](std::size_t dim, std::int64_t by) {
    Sizes start = zero;
    start[dim] = by;
    return start;
  };
  const auto with = [](Sizes sizes, std::size_t dim, std::int64_t size) {
    sizes[dim] = size;
    return sizes;
  };
  check(op.from.copies == 1 && op.to.copies == 1, "copies are converted where they are made");

  switch (op.collective()) {
    case CollectiveKind::kAllReduce:
      std::memcpy(out.data, in.data, bytes(in));
      axis.all_reduce(payload_of(out.data, out.elements()), site).wait();
      return;
    case CollectiveKind::kAllGather: {
      const std::size_t dim = place_of(*in.spec, op.from.dim);
      check(out_sizes[dim] == n * in_sizes[dim], "slices of a tensor between ops are equal");
      std::byte* const whole = op.is_contiguous(*in.spec, op.from.dim) ? out_data : packed;
      axis.all_gather(payload_of(in.data, in.elements()), payload_of(whole, out.elements()), site).wait();
      if (whole == out_data) return;
      for (int r = 0; r < n; ++r)
        for (const Piece& p : op.pieces(op.from.dim, out_sizes[dim], r))
          copy_block(with(in_sizes, dim, p.size),
                     {packed + r * in.elements() * unit, in_sizes, shifted(dim, p.in_slice)},
                     {out_data, out_sizes, shifted(dim, p.in_whole)}, unit);
      return;
    }
    case CollectiveKind::kReduceScatter: {
      const std::size_t dim = place_of(*in.spec, op.to.dim);
      check(in_sizes[dim] == n * out_sizes[dim], "slices of a tensor between ops are equal");
      std::byte* whole = in_data;
      if (!op.is_contiguous(*in.spec, op.to.dim)) {
        whole = packed;
        for (int r = 0; r < n; ++r)
          for (const Piece& p : op.pieces(op.to.dim, in_sizes[dim], r))
            copy_block(with(out_sizes, dim, p.size), {in_data, in_sizes, shifted(dim, p.in_whole)},
                       {packed + r * out.elements() * unit, out_sizes, shifted(dim, p.in_slice)}, unit);
      }
      axis.reduce_scatter(payload_of(whole, in.elements()), payload_of(out.data, out.elements()), site).wait();
      return;
    }
    case CollectiveKind::kAllToAll: {
      const std::size_t a = place_of(*in.spec, op.from.dim), b = place_of(*in.spec, op.to.dim);
      check(out_sizes[a] == n * in_sizes[a] && in_sizes[b] == n * out_sizes[b], "slices of a tensor are equal");
      Sizes piece = in_sizes;
      piece[b] = out_sizes[b];
      const std::int64_t count = product(piece);
      std::byte* const got = packed + in.elements() * unit;
      for (int r = 0; r < n; ++r)
        for (const Piece& p : op.pieces(op.to.dim, in_sizes[b], r))
          copy_block(with(piece, b, p.size), {in_data, in_sizes, shifted(b, p.in_whole)},
                     {packed + r * count * unit, piece, shifted(b, p.in_slice)}, unit);
      const std::vector<std::int64_t> counts(static_cast<std::size_t>(n), count);
      axis.all_to_all(payload_of(packed, in.elements()), counts, payload_of(got, out.elements()), counts, site).wait();
      for (int r = 0; r < n; ++r)
        for (const Piece& p : op.pieces(op.from.dim, out_sizes[a], r))
          copy_block(with(piece, a, p.size), {got + r * count * unit, piece, shifted(a, p.in_slice)},
                     {out_data, out_sizes, shifted(a, p.in_whole)}, unit);
      return;
    }
    case CollectiveKind::kNone:
      break;
  }
  // Nothing moves between ranks.
  if (op.to.kind == Kind::kShard && op.from.kind != Kind::kShard) {
    const std::size_t dim = place_of(*in.spec, op.to.dim);
    for (const Piece& p : op.pieces(op.to.dim, in_sizes[dim], me))
      copy_block(with(out_sizes, dim, p.size), {in_data, in_sizes, shifted(dim, p.in_whole)},
                 {out_data, out_sizes, shifted(dim, p.in_slice)}, unit);
  } else if (op.to.kind == Kind::kPartial) {
    // A slice as a part of a sum; or an equal value, which the first rank brings.
    std::memset(out.data, 0, bytes(out));
    if (op.from.kind == Kind::kShard) {
      const std::size_t dim = place_of(*in.spec, op.from.dim);
      for (const Piece& p : op.pieces(op.from.dim, out_sizes[dim], me))
        copy_block(with(in_sizes, dim, p.size), {in_data, in_sizes, shifted(dim, p.in_slice)},
                   {out_data, out_sizes, shifted(dim, p.in_whole)}, unit);
    } else if (me == 0) {
      std::memcpy(out.data, in.data, bytes(in));
    }
  } else {
    std::memcpy(out.data, in.data, bytes(in));
  }
}

}  // namespace sextant
