#pragma once
// The machine that runs programs: buffers, kernels, communicators. It knows no strategy.
#include <map>

#include "sextant/ops/convert.h"
#include "sextant/program/memory.h"
#include "sextant/program/messages.h"
#include "sextant/program/slices.h"
#include "sextant/runtime/comm/communicator.h"
#include "sextant/runtime/exec/rank_groups.h"
#include "sextant/runtime/exec/store.h"
#include "sextant/runtime/kernels/kernel.h"
#include "sextant/runtime/memory/pool.h"
#include "sextant/runtime/optim/optimizer.h"
#include "sextant/trace/timeline.h"

namespace sextant {

struct ExecutorOptions {
  int threads = 1;
  int spin = 20000;  ///< of the team's threads
  std::uint64_t seed = 0;
  Poison poison = Poison::kOff;
  Bytes memory{};  ///< address space of the pool; 0: from the memory plan
  OptimizerConfig optimizer;
};

/// What a step did; equal on all ranks.
struct StepResult {
  double loss = 0;          ///< mean over the step's valid tokens
  std::int64_t tokens = 0;  ///< valid ones
  double grad_norm = 0;     ///< before clipping
  double learning_rate = 0;
  bool stop = false;     ///< some rank wished to stop behind this step
  bool skipped = false;  ///< nothing was updated; `reason` says why
  std::string reason;
};

class Executor {
 public:
  /// Takes parameters, gradients and optimizer state from the pool. `program` and `kernels` must outlive it. Throws
  /// InvalidInput if a kernel is missing, or for a program that this runtime cannot run.
  Executor(const Program& program, const KernelTable& kernels, Communicator& world, const ExecutorOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Draws every parameter by its logical name and element, so equal under every layout.
  void initialise();

  /// A data tensor of a microbatch as this rank sees it; empty if the program does not use it, or sees it split.
  template <class T>
  std::span<T> data(const std::string& name, int microbatch) {
    for (DataTensor& t : data_)
      if (t.spec.name == name && t.elements == t.whole_elements)
        return {t.buffer.as<T>() + microbatch * t.elements, static_cast<std::size_t>(t.elements)};
    return {};
  }
  /// Gives a microbatch's sequence `row` (of this data-parallel rank) to every tensor of that name, which takes its
  /// slice. To be called for all sequences before step().
  template <class T>
  void put(const std::string& name, int microbatch, std::int64_t row, std::span<const T> sequence) {
    for (DataTensor& t : data_) {
      if (t.spec.name != name) continue;
      for (const Piece& p : t.sequence) {
        const auto part = sequence.subspan(static_cast<std::size_t>(p.in_whole), static_cast<std::size_t>(p.size));
        std::copy(part.begin(), part.end(), t.buffer.as<T>() + microbatch * t.elements + row * t.length + p.in_slice);
      }
    }
  }

  /// Runs the program once. `rate`: learning rate; a rate below 0 leaves out the optimizer. A wish to stop reaches all
  /// ranks in the same step.
  StepResult step(double rate, bool wish_to_stop = false);

  /// Runs F of every unit for microbatch 0 and returns the last unit's output, which stays until the next call.
  View forward();

  /// Elements of a parameter or its gradient, by logical name, where this rank has it whole between steps.
  template <class T>
  std::span<T> parameter(const std::string& name) {
    const PlacedAt& p = placed_.at(name);
    return {static_cast<T*>(store(p.bucket).whole_parameter(p.index)), static_cast<std::size_t>(p.size)};
  }
  template <class T>
  std::span<T> gradient(const std::string& name) {
    const PlacedAt& p = placed_.at(name);
    return {static_cast<T*>(store(p.bucket).whole_gradient(p.index)), static_cast<std::size_t>(p.size)};
  }
  std::span<std::byte> parameter_bytes(const std::string& name) {
    const PlacedAt& p = placed_.at(name);
    return {static_cast<std::byte*>(store(p.bucket).whole_parameter(p.index)),
            static_cast<std::size_t>(p.size * size_of(program_.dtype))};
  }
  DType dtype() const { return program_.dtype; }
  /// Whether every rank has every parameter whole between steps.
  bool has_whole_parameters() const {
    return program_.by_pp.size() == 1 && program_.zero < 3 && program_.mesh[Axis::kTp] == 1;
  }
  /// Calls `body(logical index, value)` for each element that this rank stores of a parameter; nothing if another
  /// coordinate has it.
  template <class T>
  void for_each_value(const std::string& name, const auto& body) {
    if (const auto found = placed_.find(name); found != placed_.end())
      store(found->second.bucket)
          .template for_each<T>(found->second.index, false, false, [&](std::int64_t i, T& value) {
            if (const std::int64_t logical = found->second.elements.logical(i); logical >= 0) body(logical, value);
          });
  }
  /// A whole parameter, or its gradient behind a step, on every rank: to be called by all of them.
  template <class T>
  std::vector<T> gather(const Parameter& parameter, bool gradient) {
    std::vector<T> all(static_cast<std::size_t>(parameter.spec.elements()), T{0});
    if (const auto found = placed_.find(parameter.spec.name); found != placed_.end())
      store(found->second.bucket)
          .template for_each<T>(found->second.index, gradient, true, [&](std::int64_t i, T value) {
            const std::int64_t logical = found->second.elements.logical(i);
            if (logical >= 0) all[static_cast<std::size_t>(logical)] = value;
          });
    world_.all_reduce(payload(std::span(all)), "a whole parameter").wait();
    return all;
  }

  const Pool& pool() const { return pool_; }
  const MemoryPlan& memory_plan() const { return memory_; }
  StepBytes received() const { return groups_.received(); }  ///< so far, by group
  StepBytes promised() const;                                ///< of one step on this rank
  const Timeline& timeline() const { return timeline_; }     ///< of the last step
  std::int64_t updates() const { return updates_; }

 private:
  struct DataTensor {
    TensorSpec spec;  // as its readers see it placed
    Buffer buffer;
    std::int64_t elements = 0, whole_elements = 0;  // of one microbatch: here, and of this data-parallel rank
    std::vector<Piece> sequence;                    // of `length` tokens here
    std::int64_t length = 0;
  };
  struct ReadyStep {
    Kernel kernel = nullptr;  // or
    const Convert* conversion = nullptr;
    std::string what;
    Site site;
  };
  struct Rows {
    std::int64_t first = 0, all = 0, copies = 1;  // as of View
  };
  struct ReadyUnit {
    std::vector<TensorSpec> specs;  // local, per slot
    std::vector<Rows> rows;         // of weights whose first dim is split
    std::vector<int> data;          // per slot: which of data_
    std::vector<ReadyStep> f, b, i, w;
  };
  struct Instance {
    void* data = nullptr;
    bool written = false;
  };
  struct PlacedAt {
    int bucket = -1, index = -1;
    std::int64_t size = 0;
    LocalElements elements;
  };
  // What a slot of a unit stands for if it is no instance of its own.
  struct Held {
    int bucket = -1, index = -1;  // a parameter, or
    bool is_gradient = false, is_loss = false;
  };

  BucketStore& store(int bucket) { return buckets_[static_cast<std::size_t>(bucket)]; }
  void free_instances();
  void run(const Instruction& instruction);
  Instance& instance(int unit, int slot, int microbatch);
  void hand_over(int from_unit, int from_slot, int to_unit, int to_slot, int microbatch);
  int neighbour(int unit, int direction) const;
  void reduce_rest(int bucket);
  double count_tokens();
  void decide();
  Payload message(const Instruction& instruction);
  void finish(std::int32_t started);
  void begin_event() { event_start_ = now(); }
  void begin_run(const Instruction& instruction);
  void end_run(const Instruction& instruction, Seconds start);
  void end_event(const std::string& what, Bytes bytes = {});
  Seconds now() const;

  const Program& program_;
  const RankGroups groups_;
  const int pp_;  // pipeline coordinate
  const Coordinates own_;
  const RankProgram& rank_;
  ExecutorOptions options_;
  MemoryPlan memory_;
  Pool pool_;
  Team team_;
  Communicator& world_;
  std::vector<ReadyUnit> units_;
  std::vector<BucketStore> buckets_;
  std::map<std::string, PlacedAt> placed_;
  std::vector<DataTensor> data_;
  Buffer loss_;
  std::vector<std::vector<std::vector<Instance>>> instances_;  // [microbatch][unit][slot]
  std::vector<std::vector<Held>> held_;                        // [unit][slot]
  bool loss_has_contribution_ = false;
  const MessageNumbers numbers_;
  std::map<std::int32_t, Pending> pending_;  // by instruction; declared behind the buffers it uses
  StepResult result_;
  double rate_ = 0, clip_ = 1;
  std::int64_t updates_ = 0;
  Timeline timeline_;
  Seconds event_start_;
  int action_ = -1;                        // event of the action that is under way
  std::map<std::int64_t, int> transfers_;  // by message: its event
  std::vector<std::int64_t> taken_;        // messages that the next action takes
};

/// Bytes that the loader's tensors of a step take, and state bytes per parameter element, for plan_memory.
Bytes data_bytes(const Program& program, int pp);
Bytes state_bytes_per_element(const Program& program, OptimizerKind kind);

}  // namespace sextant
