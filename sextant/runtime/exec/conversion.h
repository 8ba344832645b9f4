#pragma once
#include "sextant/ops/convert.h"
#include "sextant/runtime/comm/communicator.h"
#include "sextant/runtime/kernels/kernel.h"

namespace sextant {

/// Takes a tensor from one placement over an axis to another: packs and starts the one collective; `finish` waits for
/// it and unpacks. `scratch` is as large as the op says. All buffers belong to it until it is finished.
class Conversion {
 public:
  Conversion(const Convert& op, View in, View out, Communicator& axis, void* scratch, const Site& site);
  void finish();

 private:
  std::vector<std::int64_t> exchanged() const;
  const Convert* op_;
  View in_, out_;
  std::byte* scratch_;
  int ranks_;
  Pending pending_;
};

}  // namespace sextant
