#pragma once
// Ranks as threads of one process.
#include <functional>

#include "sextant/runtime/comm/communicator.h"

namespace sextant {

/// Runs `body` on `ranks` threads, each with its world communicator. When one throws, the others end with PeerFailed at
/// their next wait; the error that came first by rank and is no PeerFailed is thrown on. If a rank does not end then,
/// because it hangs, the process ends with `report`'s code; without a report this waits for it.
void run_threads(int ranks, const std::function<void(Communicator&)>& body, CommOptions options = {},
                 const Report& report = {});

}  // namespace sextant
