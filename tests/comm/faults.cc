// A rank goes wrong in one of many ways, and the run must end with the right verdict. faults CLASS SEED RANKS [STEPS]:
// ranks are threads, or the processes of mpirun. Prints "VERDICT cause rank text".
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "sextant/base/random.h"
#include "sextant/runtime/comm/mpi.h"
#include "sextant/runtime/comm/threads.h"

using namespace sextant;

namespace {

struct Fault {
  std::string name;
  int step, rank;
};

// Asleep for good.
void sleep_long() {
  while (true) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// One step as a trainer's: true if this rank ends its work here.
bool step(Communicator& world, Communicator& pair, bool wrong, const std::string& fault) {
  std::vector<float> gradients(1000, 1), part(1000);
  std::vector<double> doubles(1000, 1);
  double norm = 1;
  world.enter(Phase::kData);
  if (wrong && fault == "stuck") sleep_long();
  world.enter(Phase::kComputing);
  if (wrong && fault == "missing") return true;
  if (wrong && fault == "stopped") {
    if (mpi_process())
      std::raise(SIGSTOP);
    else
      sleep_long();
  }
  if (wrong && fault == "dead") {
    if (mpi_process()) std::raise(SIGKILL);
    throw std::runtime_error(str("rank ", world.rank(), " dies"));
  }
  Pending early = pair.all_reduce({&norm, 1, DType::kF64}, "pairs");
  if (wrong && fault == "order") {
    world.all_reduce({&norm, 1, DType::kF64}, "norm").wait();
    world.all_reduce(payload(std::span(gradients)), "gradients").wait();
  } else if (wrong && fault == "kind") {
    const auto own = slice_of(1000, world.size(), world.rank()).size();
    world
        .reduce_scatter(payload(std::span(gradients)), payload(std::span(part).first(static_cast<std::size_t>(own))),
                        "gradients")
        .wait();
  } else if (wrong && fault == "count") {
    world.all_reduce(payload(std::span(gradients).first(999)), "gradients").wait();
  } else if (wrong && fault == "dtype") {
    world.all_reduce(payload(std::span(doubles)), "gradients").wait();
  } else {
    world.all_reduce(payload(std::span(gradients)), "gradients").wait();
  }
  early.wait();
  world.broadcast(payload(std::span(gradients)), wrong && fault == "root" ? 1 : 0, "weights").wait();
  world.all_reduce({&norm, 1, DType::kF64}, "norm").wait();
  return false;
}

// Stops this process for two seconds.
void stop_and_go_on() {
  const pid_t self = ::getpid(), child = ::fork();
  if (child == 0) {
    ::usleep(2'000'000);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  std::raise(SIGSTOP);
  ::waitpid(child, nullptr, 0);
}

// A long transfer, in which one rank dies or is stopped.
void fail_halfway(Communicator& world, bool wrong, int signal) {
  std::vector<float> much(std::size_t{1} << 22, 1);
  Pending sum = world.all_reduce(payload(std::span(much)), "halfway");
  if (wrong) std::raise(signal);
  sum.wait();
}

// Half of the ranks leave a long transfer lying: to the others the run is slow, not wrong.
void exchange_slowly(Communicator& world) {
  std::vector<float> much(std::size_t{1} << 24, 1);
  Pending sum = world.all_reduce(payload(std::span(much)), "slow");
  if (world.rank() < world.size() / 2) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  sum.wait();
}

}  // namespace

int main(int argc, char** argv) {
  const bool asks = argc > 1 && std::string(argv[1]) == "--culprit";  // prints who will go wrong
  if (asks) --argc, ++argv;
  if (argc < 4) return 2;
  const std::string name = argv[1];
  const auto seed = static_cast<std::uint64_t>(std::atoll(argv[2]));
  const int ranks = std::atoi(argv[3]), steps = argc > 4 ? std::atoi(argv[4]) : 40;
  const RandomStream random(seed, Purpose::kTest, hash_name(name));
  const Fault fault{name, 5 + static_cast<int>(random.uniform(0) * 20), static_cast<int>(random.uniform(1) * ranks)};
  if (asks) return std::cout << fault.rank << std::endl, 0;
  const auto body = [&](Communicator& world) {
    const int r = world.rank(), base = r / 2 * 2;
    const auto pair = world.group(base + 1 < ranks ? std::vector{base, base + 1} : std::vector{base});
    if (name == "slow") exchange_slowly(world);
    for (int s = 0; s < steps; ++s) {
      const bool wrong = s == fault.step && r == fault.rank;
      if (s == fault.step && name == "dead_halfway") fail_halfway(world, wrong, SIGKILL);
      if (s == fault.step && name == "stopped_halfway") fail_halfway(world, wrong, SIGSTOP);
      if (wrong && name == "pause") stop_and_go_on();
      if (step(world, *pair, wrong, name)) return;
    }
  };
  const bool clean = name == "clean" || name == "pause" || name == "slow";
  const CommOptions options{.timeout = {clean && name != "slow" ? 0.0 : 1.0},
                            .dump = clean ? "" : str("faults-", name, "-", seed, ".json")};
  const Report report = [&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const PeerFailed& e) {
      return static_cast<int>(e.exit_code);
    } catch (const CommError& e) {
      std::cout << "VERDICT " << name_of(e.cause) << " " << e.rank << " " << e.what() << std::endl;
    } catch (const std::exception& e) {
      std::cout << "VERDICT dead " << fault.rank << " " << e.what() << std::endl;
    }
    return 7;
  };
  try {
    if (mpi_process())
      run_mpi(body, options, report);
    else
      run_threads(ranks, body, options, report);
  } catch (...) {
    return report(std::current_exception());
  }
  if (!mpi_process() || mpi_process()->rank == 0) std::cout << "CLEAN" << std::endl;
  return 0;
}
