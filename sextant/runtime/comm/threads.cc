#include "sextant/runtime/comm/threads.h"

#include <unistd.h>

#include <deque>
#include <exception>
#include <system_error>
#include <thread>

#include "sextant/base/errors.h"
#include "sextant/runtime/comm/fabric.h"

namespace sextant {
namespace {

class ThreadEndpoint final : public Endpoint {
 public:
  ThreadEndpoint(int rank, std::vector<Neighbour> world, Board& board, const CommOptions& options,
                 std::deque<Desk>& desks)
      : Endpoint(rank, std::move(world), board, nullptr, options, false), desks_(desks) {}
  Desk* new_desk() override { return &desks_.emplace_back(); }
  Region memory(Bytes capacity) override { return Region(capacity); }
  bool is_shown(const void*) const override { return true; }

 private:
  std::deque<Desk>& desks_;  // others may look at them until the run ends
};

}  // namespace

void run_threads(int ranks, const std::function<void(Communicator&)>& body, CommOptions options, const Report& report) {
  check(ranks >= 1, "a run has a rank");
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (options.spin < 0) options.spin = ranks <= cores ? 2000 : 50;
  Board board;
  const auto count = static_cast<std::size_t>(ranks);
  std::deque<Status> statuses(count);
  std::vector<std::deque<Desk>> desks(count);
  std::vector<Neighbour> world;
  for (Status& status : statuses) world.push_back({&status, 0});
  std::vector<std::exception_ptr> errors(count);
  std::atomic<int> ended{0};
  // The rank that found a peer missing leaves it some time; one that hangs for good takes no one along.
  const auto end_with_the_others = [&](const std::exception_ptr& error) {
    constexpr double kMost = 2;
    const double start = steady_seconds();
    while (ended.load() < ranks && steady_seconds() < start + kMost)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ended.load() < ranks) ::_exit(report(error));
  };
  const auto run = [&](int rank) {
    ThreadEndpoint end(rank, world, board, options, desks[static_cast<std::size_t>(rank)]);
    end.begin();
    try {
      const auto communicator = Fabric::world(end);
      body(*communicator);
    } catch (...) {
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      end.fail();
    }
    end.enter(Phase::kEnded);
    ++ended;
    if (report && board.speaker.load() == rank) end_with_the_others(errors[static_cast<std::size_t>(rank)]);
  };
  std::vector<std::thread> threads;
  try {
    for (int r = 1; r < ranks; ++r) threads.emplace_back(run, r);
    run(0);
  } catch (const std::system_error& e) {
    errors[0] = std::make_exception_ptr(InvalidInput(
        str("this machine cannot start ", ranks, " threads for the ranks (", e.what(), "); use fewer --ranks"),
        ExitCode::kDoesNotFit));
    board.failed = true;
    for (Status& status : statuses) ring(status);
  }
  for (std::thread& thread : threads) thread.join();
  // Reasons come before their consequences: the lowest rank's own error, else any.
  std::exception_ptr reason;
  bool has_own_reason = false;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const PeerFailed&) {
    } catch (...) {
      reason = error;
      has_own_reason = true;
      break;
    }
  }
  if (has_own_reason) std::rethrow_exception(reason);
  // No error, and yet the run was ended: an operation was started and dropped.
  if (board.failed) throw CommError("a started operation was never waited for");
}

}  // namespace sextant
