#pragma once
// Ranks as threads of one process.
#include <functional>

#include "sextant/runtime/comm/communicator.h"

namespace sextant {

struct ThreadOptions {
  int spin = -1;         ///< looks before a waiting rank sleeps; -1: 2000 with a core for each rank, else 50
  Seconds timeout{600};  ///< a rank that waits this long for a peer ends the run with a CommError
};

/// Runs `body` on `ranks` threads, each with its world communicator. When one throws, the others end with PeerFailed at
/// their next wait; the error that came first by rank and is no PeerFailed is thrown on.
void run_threads(int ranks, const std::function<void(Communicator&)>& body, ThreadOptions options = {});

}  // namespace sextant
