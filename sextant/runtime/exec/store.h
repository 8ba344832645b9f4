#pragma once
// A bucket in memory, as its ZeRO stage says: what is whole, what is a shard, and what is whole for a part of the step.
#include "sextant/program/memory.h"
#include "sextant/runtime/comm/communicator.h"
#include "sextant/runtime/memory/pool.h"
#include "sextant/runtime/optim/optimizer.h"

namespace sextant {

class BucketStore {
 public:
  /// Takes what lives between steps from the pool, zeroed: padding travels with parameters. `zero` are the ranks that
  /// share the bucket.
  BucketStore(const Program& program, const Bucket& bucket, int pp, const Coordinates& at, Communicator& zero,
              Pool& pool, int state_values);

  const Bucket& bucket() const { return *bucket_; }

  /// Where kernels read a parameter, or add to its gradient. The parameters must be gathered (zero 3).
  void* parameter(int index) const { return at(whole_parameters(), placed(index).offset); }
  /// Takes memory for whole gradients if there is none, and says whether the gradient holds contributions already.
  void prepare_gradients();
  void* gradient(int index) const { return at(whole_gradients(), placed(index).offset); }
  bool add_contribution(int index) { return std::exchange(has_contribution_[static_cast<std::size_t>(index)], 1) != 0; }
  void begin_step();

  [[nodiscard]] Pending unshard();
  void reshard() { gathered_ = {}; }
  /// Gradients that nobody added to are zero.
  [[nodiscard]] Pending reduce();
  void finish_reduce();
  [[nodiscard]] Pending gather_parameters();
  /// The rank's gradients, part of what a later sum is over: elements [begin, end) of the bucket.
  Payload gradients_within(std::int64_t begin, std::int64_t end) const;

  double sum_of_squares(Team& team) const;  ///< of what this rank counts
  void update(Team& team, const OptimizerConfig& optimizer, double rate, std::int64_t updates, double clip);

  /// Calls `body(logical index, value)` for each element of a parameter, or of its reduced gradient, that this rank has
  /// between steps; with `counted` only where it is the one that counts.
  template <class T>
  void for_each(int index, bool gradient, bool counted, const auto& body) {
    const Placed& p = placed(index);
    if (counted && !counts_[static_cast<std::size_t>(index)]) return;
    const Slice stored = counted ? shard_ : gradient ? stored_gradients() : stored_parameters();
    T* base = static_cast<T*>(gradient ? gradients_.data() : parameters_.data());
    const std::int64_t start = gradient ? stored_gradients().begin : stored_parameters().begin;
    for (std::int64_t i = std::max(p.offset, stored.begin); i < std::min(p.offset + p.size, stored.end); ++i)
      body(i - p.offset, base[i - start]);
  }
  /// The whole parameter, if it is whole between steps.
  void* whole_parameter(int index) const;
  void* whole_gradient(int index) const;

 private:
  const Placed& placed(int index) const { return bucket_->parameters[static_cast<std::size_t>(index)]; }
  void* at(void* base, std::int64_t element) const { return static_cast<char*>(base) + element * unit_; }
  void* whole_parameters() const { return zero_stage_ == 3 ? gathered_.data() : parameters_.data(); }
  void* whole_gradients() const { return zero_stage_ >= 2 ? whole_gradients_.data() : gradients_.data(); }
  Slice whole() const { return {0, bucket_->elements}; }
  Slice stored_parameters() const { return zero_stage_ == 3 ? shard_ : whole(); }
  Slice stored_gradients() const { return zero_stage_ >= 2 ? shard_ : whole(); }
  Slice updated() const { return zero_stage_ >= 1 ? shard_ : whole(); }
  Payload payload_of(void* base, std::int64_t elements) const { return {base, elements, dtype_}; }

  const Bucket* bucket_;
  Pool* pool_;
  Communicator* zero_;
  int zero_stage_;
  DType dtype_;
  std::int64_t unit_;  // bytes of an element
  Slice shard_;        // of the bucket's elements
  Site gradients_site_, parameters_site_;
  Buffer parameters_, gradients_, state_;
  Buffer gathered_, whole_gradients_;
  std::vector<char> has_contribution_, counts_;  // per parameter
  bool shard_has_sum_ = false;                   // zero 2, 3: an earlier reduction of this step
  std::vector<Range> owned_, counted_;           // within updated() and stored_gradients(), from their starts
};

}  // namespace sextant
