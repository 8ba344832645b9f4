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

Sizes shifted(std::size_t rank, std::size_t dim, std::int64_t by) {
  Sizes start(rank, 0);
  start[dim] = by;
  return start;
}
Sizes with(Sizes sizes, std::size_t dim, std::int64_t size) {
  sizes[dim] = size;
  return sizes;
}
std::byte* data_of(const View& v) { return static_cast<std::byte*>(v.data); }
std::int64_t unit_of(const View& v) { return size_of(v.spec->dtype); }

// The parts of `whole` along a dim that lie, one behind the other, in `packed` (each of the sizes `part`): rank r's are
// its pieces. Into `packed`, or out of it.
enum class Way : std::uint8_t { kPack, kUnpack };
void copy_parts(const Convert& op, Way way, Dim dim, const View& whole, std::byte* packed, const Sizes& part,
                int ranks) {
  const Sizes sizes = sizes_of(*whole.spec);
  const std::size_t d = place_of(*whole.spec, dim), n = sizes.size();
  const std::int64_t unit = unit_of(whole);
  for (int r = 0; r < ranks; ++r)
    for (const Piece& p : op.pieces(dim, sizes[d], r)) {
      const Place in_whole{data_of(whole), sizes, shifted(n, d, p.in_whole)},
          in_part{packed + r * product(part) * unit, part, shifted(n, d, p.in_slice)};
      const bool packs = way == Way::kPack;
      copy_block(with(part, d, p.size), packs ? in_whole : in_part, packs ? in_part : in_whole, unit);
    }
}

// Nothing moves between ranks: a slice of what each has, or a part of a sum.
void convert_here(const Convert& op, const View& in, const View& out, int me) {
  const std::int64_t unit = unit_of(in);
  const Sizes in_sizes = sizes_of(*in.spec), out_sizes = sizes_of(*out.spec);
  const std::size_t n = in_sizes.size();
  const auto bytes = [&](const View& v) { return static_cast<std::size_t>(v.elements() * unit); };
  if (op.to.kind == Kind::kShard && op.from.kind != Kind::kShard) {
    const std::size_t dim = place_of(*in.spec, op.to.dim);
    for (const Piece& p : op.pieces(op.to.dim, in_sizes[dim], me))
      copy_block(with(out_sizes, dim, p.size), {data_of(in), in_sizes, shifted(n, dim, p.in_whole)},
                 {data_of(out), out_sizes, shifted(n, dim, p.in_slice)}, unit);
  } else if (op.to.kind == Kind::kPartial) {
    // A slice as a part of a sum; or an equal value, which the first rank brings.
    std::memset(out.data, 0, bytes(out));
    if (op.from.kind == Kind::kShard) {
      const std::size_t dim = place_of(*in.spec, op.from.dim);
      for (const Piece& p : op.pieces(op.from.dim, out_sizes[dim], me))
        copy_block(with(in_sizes, dim, p.size), {data_of(in), in_sizes, shifted(n, dim, p.in_slice)},
                   {data_of(out), out_sizes, shifted(n, dim, p.in_whole)}, unit);
    } else if (me == 0) {
      std::memcpy(out.data, in.data, bytes(in));
    }
  } else {
    std::memcpy(out.data, in.data, bytes(in));
  }
}

}  // namespace

Conversion::Conversion(const Convert& op, View in, View out, Communicator& axis, void* scratch, const Site& site)
    : op_(&op), in_(in), out_(out), scratch_(static_cast<std::byte*>(scratch)), ranks_(axis.size()) {
  const auto payload_of = [&](void* data, std::int64_t count) { return Payload{data, count, in.spec->dtype}; };
  const auto slices_are_equal = [&](const View& whole, const View& slice, Dim dim) {
    const std::size_t d = place_of(*whole.spec, dim);
    check(sizes_of(*whole.spec)[d] == ranks_ * sizes_of(*slice.spec)[d], "slices of a tensor between ops are equal");
  };
  check(op.from.copies == 1 && op.to.copies == 1, "copies are converted where they are made");
  switch (op.collective()) {
    case CollectiveKind::kAllReduce:
      std::memcpy(out.data, in.data, static_cast<std::size_t>(in.elements() * unit_of(in)));
      pending_ = axis.all_reduce(payload_of(out.data, out.elements()), site);
      break;
    case CollectiveKind::kAllGather: {
      slices_are_equal(out, in, op.from.dim);
      std::byte* const whole = op.is_contiguous(*in.spec, op.from.dim) ? data_of(out) : scratch_;
      pending_ = axis.all_gather(payload_of(in.data, in.elements()), payload_of(whole, out.elements()), site);
      break;
    }
    case CollectiveKind::kReduceScatter: {
      slices_are_equal(in, out, op.to.dim);
      std::byte* whole = data_of(in);
      if (!op.is_contiguous(*in.spec, op.to.dim)) {
        whole = scratch_;
        copy_parts(op, Way::kPack, op.to.dim, in, whole, sizes_of(*out.spec), ranks_);
      }
      pending_ = axis.reduce_scatter(payload_of(whole, in.elements()), payload_of(out.data, out.elements()), site);
      break;
    }
    case CollectiveKind::kAllToAll: {
      slices_are_equal(out, in, op.from.dim), slices_are_equal(in, out, op.to.dim);
      const Sizes part = exchanged();
      copy_parts(op, Way::kPack, op.to.dim, in, scratch_, part, ranks_);
      const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks_), product(part));
      std::byte* const got = scratch_ + in.elements() * unit_of(in);
      pending_ =
          axis.all_to_all(payload_of(scratch_, in.elements()), counts, payload_of(got, out.elements()), counts, site);
      break;
    }
    case CollectiveKind::kNone:
      convert_here(op, in, out, axis.rank());
      break;
  }
}

// What two ranks exchange in an all-to-all.
std::vector<std::int64_t> Conversion::exchanged() const {
  Sizes part = sizes_of(*in_.spec);
  const std::size_t d = place_of(*in_.spec, op_->to.dim);
  part[d] = sizes_of(*out_.spec)[d];
  return part;
}

void Conversion::finish() {
  pending_.wait();
  if (op_->collective() == CollectiveKind::kAllGather && !op_->is_contiguous(*in_.spec, op_->from.dim))
    copy_parts(*op_, Way::kUnpack, op_->from.dim, out_, scratch_, sizes_of(*in_.spec), ranks_);
  if (op_->collective() == CollectiveKind::kAllToAll)
    copy_parts(*op_, Way::kUnpack, op_->from.dim, out_, scratch_ + in_.elements() * unit_of(in_), exchanged(), ranks_);
}

}  // namespace sextant
