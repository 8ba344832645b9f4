// Fabric: how collectives move data.
#include <algorithm>
#include <cstring>

#include "sextant/base/errors.h"
#include "sextant/runtime/comm/fabric.h"
#include "sextant/runtime/comm/payload_memory.h"

namespace sextant {
namespace {

// sum[i] = parts[0][i] + parts[1][i] + ... (or another `join` in place of +); written to every one of `to`. In blocks,
// so that a block stays in cache.
template <class T>
void combine_slice(std::span<const T* const> parts, std::span<T* const> to, std::int64_t count, const auto& join) {
  constexpr std::int64_t kBlock = 2048;
  T sum[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const T *a = parts[0] + begin, *b = parts[1] + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sum[i] = join(a[i], b[i]);
    for (std::size_t p = 2; p < parts.size(); ++p) {
      const T* more = parts[p] + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) sum[i] = join(sum[i], more[i]);
    }
    for (T* out : to) std::memcpy(out + begin, sum, static_cast<std::size_t>(n) * sizeof(T));
  }
}

}  // namespace

// Starts what crosses nodes, and does what needs nothing from there.
void Fabric::exchange(std::uint64_t number) {
  Collective& c = operation(number);
  const Copying copying(end_);
  const Post& own = c.post;
  const DType dtype = own.in.dtype;
  const int n = size();
  const std::int64_t unit = size_of(dtype);
  const auto send = [&](int q, const void* data, std::int64_t elements) {
    if (elements > 0)
      c.requests.emplace_back(end_.wire()->send(peer(q).world_rank, data, elements * unit, c.channels[remote_index(q)]),
                              q);
  };
  const auto receive = [&](int q, void* data, std::int64_t elements) {
    if (elements > 0)
      c.requests.emplace_back(end_.wire()->receive(peer(q).world_rank, data, elements * unit,
                                                   peer(q).posts[number % Desk::kWindow].channel),
                              q);
    count(rank_, elements, dtype);
  };
  switch (own.print.what) {
    case What::kAllReduce:
    case What::kAllReduceMax:
    case What::kReduceScatter: {
      const Slice mine = slice_of(own.in.count, n, rank_);
      c.parts.resize(static_cast<std::size_t>(mine.size() * unit * (n - ranks_here())));
      std::byte* to = c.parts.data();
      for (int q = 0; q < n; ++q) {
        if (!peer(q).is_remote) continue;
        const Slice slice = slice_of(own.in.count, n, q);
        send(q, at(own.in, slice.begin), slice.size());
        receive(q, to, mine.size());
        to += mine.size() * unit;
      }
      break;
    }
    case What::kAllGather:
      for (int q = 0; q < n; ++q) {
        const Slice slice = slice_of(own.out.count, n, q);
        if (peer(q).is_remote) {
          send(q, own.in.data, own.in.count);
          receive(q, at(own.out, slice.begin), slice.size());
          continue;
        }
        copy(at(own.out, slice.begin), theirs(q, post(number, q).in.data), slice.size() * unit);
        if (q != rank_) count(rank_, slice.size(), dtype);
      }
      break;
    case What::kAllToAll: {
      std::int64_t to = 0;
      for (int q = 0; q < n; ++q) {
        const std::int64_t elements = c.out_counts[static_cast<std::size_t>(q)];
        if (peer(q).is_remote) {
          send(q, at(own.in, sum_before(c.in_counts.data(), q)), c.in_counts[static_cast<std::size_t>(q)]);
          receive(q, at(own.out, to), elements);
        } else {
          const auto* counts = reinterpret_cast<const std::int64_t*>(theirs(q, post(number, q).in_counts));
          const Payload in = post(number, q).in;
          copy(at(own.out, to), theirs(q, at(in, sum_before(counts, rank_))), elements * unit);
          if (q != rank_) count(rank_, elements, dtype);
        }
        to += elements;
      }
      break;
    }
    case What::kBroadcast:
      if (rank_ == own.print.root) {
        for (int q = 0; q < n; ++q)
          if (peer(q).is_remote) send(q, own.in.data, own.in.count);
      } else if (peer(own.print.root).is_remote) {
        receive(own.print.root, own.in.data, own.in.count);
      } else {
        copy(own.in.data, theirs(own.print.root, post(number, own.print.root).in.data), own.in.count * unit);
        count(rank_, own.in.count, dtype);
      }
      break;
    case What::kBarrier:
    case What::kSend:
    case What::kRecv:
      break;
  }
}

// Sums up, and gives the sum to those who need it.
void Fabric::spread(std::uint64_t number) {
  const Post& own = operation(number).post;
  if (!is_all_reduce(own.print.what) && own.print.what != What::kReduceScatter) return;
  switch (own.in.dtype) {
    case DType::kF32:
      return reduce_as<float>(number);
    case DType::kF64:
      return reduce_as<double>(number);
    case DType::kI32:
      return reduce_as<std::int32_t>(number);
    case DType::kI64:
      return reduce_as<std::int64_t>(number);
    case DType::kBf16:
    case DType::kU8:
      throw InternalError("sums of this type are not taken");
  }
}

template <class T>
void Fabric::reduce_as(std::uint64_t number) {
  Collective& c = operation(number);
  const Copying copying(end_);
  const Post& own = c.post;
  const bool to_all = is_all_reduce(own.print.what);
  const Slice mine = slice_of(own.in.count, size(), rank_);
  std::vector<const T*> parts;
  std::vector<T*> to;
  const T* sent = reinterpret_cast<const T*>(c.parts.data());
  for (int q = 0; q < size(); ++q) {
    if (peer(q).is_remote) {
      parts.push_back(sent);
      sent += mine.size();
      continue;
    }
    const Post& p = post(number, q);
    parts.push_back(reinterpret_cast<const T*>(theirs(q, p.in.data)) + mine.begin);
    if (to_all) to.push_back(const_cast<T*>(reinterpret_cast<const T*>(theirs(q, p.out.data))) + mine.begin);
    if (q == rank_) continue;
    count(rank_, mine.size(), own.in.dtype);
    if (to_all) count(q, mine.size(), own.in.dtype);
  }
  if (!to_all) to.push_back(static_cast<T*>(own.out.data));
  if (own.print.what == What::kAllReduceMax)
    combine_slice<T>(parts, to, mine.size(), [](T a, T b) { return b > a ? b : a; });
  else
    combine_slice<T>(parts, to, mine.size(), [](T a, T b) { return a + b; });
  if (!to_all || !has_remote_) return;
  for (int q = 0; q < size(); ++q) {
    if (!peer(q).is_remote) continue;
    const Slice slice = slice_of(own.in.count, size(), q);
    if (mine.size() > 0)
      c.requests.emplace_back(end_.wire()->send(peer(q).world_rank, at(own.out, mine.begin),
                                                mine.size() * size_of(own.in.dtype), c.channels[remote_index(q)]),
                              q);
    if (slice.size() > 0)
      c.requests.emplace_back(
          end_.wire()->receive(peer(q).world_rank, at(own.out, slice.begin), slice.size() * size_of(own.in.dtype),
                               peer(q).posts[number % Desk::kWindow].channel),
          q);
    count(rank_, slice.size(), own.in.dtype);
  }
}

}  // namespace sextant
