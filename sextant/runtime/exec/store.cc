#include "sextant/runtime/exec/store.h"

#include <algorithm>
#include <cstring>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

constexpr int tag(MemoryTag t) { return static_cast<int>(t); }

}  // namespace

BucketStore::BucketStore(const Program& program, const Bucket& bucket, int pp, const Coordinates& at,
                         Communicator& zero, Pool& pool, int state_values)
    : bucket_(&bucket),
      pool_(&pool),
      zero_(&zero),
      zero_stage_(program.zero_of(bucket)),
      dtype_(program.dtype),
      unit_(size_of(program.dtype)),
      shard_(slice_of(bucket.elements, zero.size(), zero.rank())),
      gradients_site_("gradients of " + bucket.name),
      parameters_site_("parameters of " + bucket.name),
      has_contribution_(bucket.parameters.size(), 0) {
  const auto take = [&](std::int64_t elements, MemoryTag which) {
    const Bytes bytes{elements * unit_};
    Buffer buffer(pool, bytes, tag(which));
    std::memset(buffer.data(), 0, static_cast<std::size_t>(bytes.value));
    return buffer;
  };
  const Stored stored = stored_elements(program, bucket);
  parameters_ = take(stored.parameters, MemoryTag::kParameters);
  gradients_ = take(stored.gradients, MemoryTag::kGradients);
  if (state_values > 0) state_ = take(stored.state * state_values, MemoryTag::kOptimizer);
  for (const Placed& p : bucket.parameters) {
    counts_.push_back(counts_in_norm(bucket, p, pp, at, program.mesh));
    const auto within = [&](Slice slice, std::int64_t from, std::vector<Range>& out) {
      const std::int64_t begin = std::max(p.offset, slice.begin), end = std::min(p.offset + p.size, slice.end);
      if (begin < end) out.push_back({begin - from, end - from, p.parameter.is_matrix});
    };
    within(updated(), updated().begin, owned_);
    // Where gradients are whole on all ranks of the zero axes, each counts its shard of them.
    if (counts_.back()) within(shard_, stored_gradients().begin, counted_);
  }
}

void BucketStore::begin_step() {
  std::fill(has_contribution_.begin(), has_contribution_.end(), 0);
  shard_has_sum_ = false;
}

void BucketStore::prepare_gradients() {
  if (zero_stage_ < 2 || whole_gradients_.data()) return;
  whole_gradients_ = Buffer(*pool_, {bucket_->elements * unit_}, tag(MemoryTag::kGradients));
  std::fill(has_contribution_.begin(), has_contribution_.end(), 0);
}

Pending BucketStore::unshard() {
  gathered_ = Buffer(*pool_, {bucket_->elements * unit_}, tag(MemoryTag::kGathered));
  return zero_->all_gather(payload_of(parameters_.data(), shard_.size()),
                           payload_of(gathered_.data(), bucket_->elements), parameters_site_);
}

Pending BucketStore::reduce() {
  for (std::size_t i = 0; i < has_contribution_.size(); ++i)
    if (!has_contribution_[i])
      std::memset(gradient(static_cast<int>(i)), 0, static_cast<std::size_t>(placed(static_cast<int>(i)).size * unit_));
  const Payload all = payload_of(whole_gradients(), bucket_->elements);
  if (zero_stage_ == 0) return zero_->all_reduce(all, gradients_site_);
  return zero_->reduce_scatter(all, payload_of(at(whole_gradients(), shard_.begin), shard_.size()), gradients_site_);
}

void BucketStore::finish_reduce() {
  if (zero_stage_ < 2) return;
  const auto move = [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const T* from = static_cast<const T*>(at(whole_gradients_.data(), shard_.begin));
    if (shard_has_sum_)
      for (std::int64_t i = 0; i < shard_.size(); ++i) to[i] += from[i];
    else
      std::copy(from, from + shard_.size(), to);
  };
  if (dtype_ == DType::kF64)
    move(gradients_.as<double>());
  else
    move(gradients_.as<float>());
  shard_has_sum_ = true;
  whole_gradients_ = {};
}

Pending BucketStore::gather_parameters() {
  return zero_->all_gather(payload_of(at(parameters_.data(), shard_.begin), shard_.size()),
                           payload_of(parameters_.data(), bucket_->elements), parameters_site_);
}

Payload BucketStore::gradients_within(std::int64_t begin, std::int64_t end) const {
  const Slice held = updated();
  begin = std::max(begin, held.begin), end = std::max(begin, std::min(end, held.end));
  return payload_of(at(gradients_.data(), begin - stored_gradients().begin), end - begin);
}

double BucketStore::sum_of_squares(Team& team) const {
  return dtype_ == DType::kF64 ? sextant::sum_of_squares(team, counted_, gradients_.as<double>())
                               : sextant::sum_of_squares(team, counted_, gradients_.as<float>());
}

void BucketStore::update(Team& team, const OptimizerConfig& optimizer, double rate, std::int64_t updates, double clip) {
  const auto step = [&](auto* parameters) {
    using T = std::remove_pointer_t<decltype(parameters)>;
    const Slice slice = updated();
    T* state = state_.as<T>();
    optimizer_step<T>(
        team, optimizer, rate, updates, clip, owned_, parameters + (slice.begin - stored_parameters().begin),
        gradients_.as<T>() + (slice.begin - stored_gradients().begin), state, state ? state + slice.size() : nullptr);
  };
  if (dtype_ == DType::kF64)
    step(parameters_.as<double>());
  else
    step(parameters_.as<float>());
}

void* BucketStore::whole_parameter(int index) const {
  check(zero_stage_ < 3, "a sharded parameter is not whole between steps");
  return parameter(index);
}

void* BucketStore::whole_gradient(int index) const {
  check(zero_stage_ == 0, "a sharded gradient is not whole behind a step");
  return gradient(index);
}

}  // namespace sextant
