#pragma once
// Messages of a program, numbered by their tags.
#include "sextant/program/program.h"

namespace sextant {

/// A tag is (activation or gradient, receiving stage, microbatch of the step); the microbatch says which direction.
class MessageNumbers {
 public:
  explicit MessageNumbers(const Program& program)
      : num_stages_(program.num_stages), num_microbatches_(program.num_microbatches) {}
  std::size_t count() const {
    return 2 * static_cast<std::size_t>(num_stages_) * static_cast<std::size_t>(num_microbatches_);
  }
  /// Of a kSend or kRecv.
  std::size_t of(const RankProgram& rank, const Instruction& message) const {
    const auto stage = static_cast<std::size_t>(receiving_stage(rank, message));
    return ((message.pass == Pass::kF ? 0 : static_cast<std::size_t>(num_stages_)) + stage) *
               static_cast<std::size_t>(num_microbatches_) +
           static_cast<std::size_t>(message.microbatch);
  }

 private:
  int num_stages_, num_microbatches_;
};

}  // namespace sextant
