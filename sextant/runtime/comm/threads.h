#pragma once
// Ranks as threads of one process.
#include <functional>

#include "sextant/runtime/comm/communicator.h"

namespace sextant {

/// Runs `body` on `ranks` threads, each with its world communicator. When one throws, the others end with PeerFailed at
/// their next wait; the error that came first by rank and is no PeerFailed is thrown on.
void run_threads(int ranks, const std::function<void(Communicator&)>& body, CommOptions options = {});

}  // namespace sextant
