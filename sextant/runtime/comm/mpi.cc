#include "sextant/runtime/comm/mpi.h"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "sextant/base/errors.h"
#include "sextant/runtime/comm/fabric.h"

namespace sextant {
namespace {

constexpr int kNoteTag = 0, kNoteSlots = 16;
constexpr std::uint64_t kChannels = 32000;              // within the tags that every MPI has
constexpr std::int64_t kChunk = std::int64_t{1} << 30;  // MPI counts are ints

class MpiWire final : public Wire {
 public:
  explicit MpiWire(int size) : next_channel_(static_cast<std::size_t>(size)) {
    for (int i = 0; i < kNoteSlots; ++i) listen(i);
  }
  ~MpiWire() override {
    for (Posted& p : posted_) MPI_Wait(&p.request, MPI_STATUS_IGNORE);
    for (MPI_Request& r : slot_requests_) MPI_Cancel(&r), MPI_Request_free(&r);
  }
  Request send(int to, const void* data, std::int64_t bytes, int channel) override {
    std::vector<MPI_Request> parts;
    for (std::int64_t at = 0; at == 0 || at < bytes; at += kChunk)
      MPI_Isend(static_cast<const char*>(data) + at, static_cast<int>(std::min(kChunk, bytes - at)), MPI_BYTE, to,
                channel, MPI_COMM_WORLD, &parts.emplace_back());
    return keep(std::move(parts));
  }
  Request receive(int from, void* data, std::int64_t bytes, int channel) override {
    std::vector<MPI_Request> parts;
    for (std::int64_t at = 0; at == 0 || at < bytes; at += kChunk)
      MPI_Irecv(static_cast<char*>(data) + at, static_cast<int>(std::min(kChunk, bytes - at)), MPI_BYTE, from, channel,
                MPI_COMM_WORLD, &parts.emplace_back());
    return keep(std::move(parts));
  }
  bool done(Request request) override {
    const auto found = open_.find(request);
    if (found == open_.end()) return true;
    int all = 0;
    MPI_Testall(static_cast<int>(found->second.size()), found->second.data(), &all, MPI_STATUSES_IGNORE);
    if (all) open_.erase(found);
    return all != 0;
  }
  bool is_busy() const override { return !open_.empty(); }
  bool flushed() override {
    while (!posted_.empty()) {
      int sent = 0;
      MPI_Test(&posted_.front().request, &sent, MPI_STATUS_IGNORE);
      if (!sent) return false;
      posted_.pop_front();
    }
    return true;
  }
  void post(int to, const Note& note) override {
    flushed();
    Posted& p = posted_.emplace_back();
    p.note = note;
    MPI_Isend(&p.note, sizeof(Note), MPI_BYTE, to, kNoteTag, MPI_COMM_WORLD, &p.request);
  }
  bool take(int& from, Note& note) override {
    // Receives complete in any order, but match in the order in which they were posted.
    int arrived = 0;
    MPI_Status status;
    MPI_Test(&slot_requests_[next_slot_], &arrived, &status);
    if (!arrived) return false;
    from = status.MPI_SOURCE;
    note = slots_[next_slot_];
    listen(static_cast<int>(next_slot_));
    next_slot_ = (next_slot_ + 1) % kNoteSlots;
    return true;
  }
  int new_channel(int to) override {
    return 1 + static_cast<int>(next_channel_[static_cast<std::size_t>(to)]++ % kChannels);
  }

 private:
  struct Posted {
    Note note;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void listen(int slot) {
    MPI_Irecv(&slots_[static_cast<std::size_t>(slot)], sizeof(Note), MPI_BYTE, MPI_ANY_SOURCE, kNoteTag, MPI_COMM_WORLD,
              &slot_requests_[static_cast<std::size_t>(slot)]);
  }
  Request keep(std::vector<MPI_Request> parts) {
    open_.emplace(++last_, std::move(parts));
    return last_;
  }
  std::array<Note, kNoteSlots> slots_;
  std::array<MPI_Request, kNoteSlots> slot_requests_{};
  std::size_t next_slot_ = 0;
  std::deque<Posted> posted_;
  std::map<Request, std::vector<MPI_Request>> open_;
  Request last_ = 0;
  std::vector<std::uint64_t> next_channel_;
};

/// Memory that the other ranks of the node map too. It has no name, so nothing is left behind however a rank ends.
class Window {
 public:
  explicit Window(Bytes capacity)
      : size_(static_cast<std::size_t>(capacity.value)), fd_(::memfd_create("sextant", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::ftruncate(fd_, capacity.value) != 0)
      throw InvalidInput("this system gives no shared memory (memfd_create)", ExitCode::kDoesNotFit);
    base_ = map(fd_);
    if (!base_) throw InvalidInput(str("cannot map ", human(capacity), " of shared memory"), ExitCode::kDoesNotFit);
    space_.emplace(Region(base_, capacity, {}), Poison::kOff);
  }
  void* allocate(Bytes bytes) { return space_->allocate(bytes, 0); }
  Region region(Bytes bytes) {
    void* data = allocate(bytes);
    return Region(data, bytes, [this, data, bytes] {
      constexpr std::int64_t kWorthIt = 1 << 20;
      if (bytes.value >= kWorthIt)
        ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<std::byte*>(data) - base_,
                    bytes.value);
      space_->free(data);
    });
  }
  bool holds(const void* address) const { return address >= base_ && address < base_ + size_; }
  std::byte* base() const { return base_; }
  int fd() const { return fd_; }
  /// Another rank's window of the same size; null if it cannot be reached.
  std::byte* map_other(int process, int fd) const {
    const int other = ::open(str("/proc/", process, "/fd/", fd).c_str(), O_RDWR | O_CLOEXEC);
    if (other < 0) return nullptr;
    std::byte* base = map(other);
    ::close(other);
    return base;
  }

 private:
  std::byte* map(int fd) const {
    void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
  }
  std::size_t size_;
  int fd_;
  std::byte* base_ = nullptr;
  std::optional<Pool> space_;
};

struct Job;
class MpiEndpoint final : public Endpoint {
 public:
  MpiEndpoint(Job& job, Wire* wire);
  std::uint64_t next_world() override;
  Desk* new_desk() override;
  Region memory(Bytes capacity) override;
  bool is_shown(const void* address) const override;

 private:
  Job& job_;
};

/// This process in its job: lives from the first run_mpi to the end of the program.
struct Job {
  Job() {
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int threads = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &threads);  // only the rank's own thread calls MPI
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wire.emplace(size);
    // A split into smaller nodes than there are, so that tests on one machine send messages too.
    const char* most = std::getenv("SEXTANT_RANKS_PER_NODE");
    const int ranks_per_node = most && std::atoi(most) > 0 ? std::atoi(most) : size;
    MPI_Comm here, node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
    int on_machine = 0;
    MPI_Comm_rank(here, &on_machine);
    MPI_Comm_split(here, on_machine / ranks_per_node, rank, &node);
    int ranks_here = 0;
    MPI_Comm_size(node, &ranks_here);
    MPI_Comm_size(here, &ranks_of_machine);

    constexpr std::int64_t kPage = 1 << 21;
    constexpr std::int64_t kMostAddresses = std::int64_t{1} << 45;
    const std::int64_t physical = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
    // Addresses cost nothing, unless `ulimit -v` counts them; a pool takes more of them than it uses.
    rlimit addresses{};
    ::getrlimit(RLIMIT_AS, &addresses);
    const auto allowed = static_cast<std::int64_t>(std::min<rlim_t>(addresses.rlim_cur, rlim_t{1} << 62)) / 2;
    const std::int64_t wanted = std::min(4 * physical, std::min(kMostAddresses, allowed) / ranks_here);
    window.emplace(Bytes{wanted / kPage * kPage});
    auto* status = new (window->allocate({sizeof(Status)})) Status;
    status->process = ::getpid();
    status->token = static_cast<std::uint64_t>(steady_seconds() * 1e9) * 2654435761U + static_cast<std::uint64_t>(rank);
    board = new (window->allocate({sizeof(Board)})) Board;
    struct Hello {
      int rank, process, fd;
      std::uint64_t token;
      std::byte* base;
      Status* status;
      Board* board;
    };
    const Hello own{rank, ::getpid(), window->fd(), status->token.load(), window->base(), status, board};
    std::vector<Hello> all(static_cast<std::size_t>(ranks_here));
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, node);
    neighbours.resize(static_cast<std::size_t>(size));
    int reached = 1;
    for (const Hello& h : all) {
      std::byte* base = h.rank == rank ? window->base() : window->map_other(h.process, h.fd);
      const std::ptrdiff_t shift = base - h.base;
      const auto here_at = [&](auto* there) {
        return reinterpret_cast<decltype(there)>(reinterpret_cast<std::byte*>(there) + shift);
      };
      // A process of this number in another container is not the one that is meant.
      reached = reached && base && here_at(h.status)->token.load() == h.token;
      neighbours[static_cast<std::size_t>(h.rank)] = {base ? here_at(h.status) : nullptr, shift};
      if (&h == all.data() && base) board = here_at(h.board);
    }
    // Where a system forbids it, ranks of one node talk by messages too.
    int all_reached = 0;
    MPI_Allreduce(&reached, &all_reached, 1, MPI_INT, MPI_MIN, node);
    if (!all_reached) {
      for (Neighbour& n : neighbours) n = {};
      neighbours[static_cast<std::size_t>(rank)] = {status, 0};
      board = own.board;
    }
    MPI_Comm_free(&here);
    MPI_Comm_free(&node);
    const bool one_node =
        std::all_of(neighbours.begin(), neighbours.end(), [](const Neighbour& n) { return n.status; });
    has_other_nodes = !one_node;
    end.emplace(*this, one_node ? nullptr : &*wire);
  }
  ~Job() {
    if (board->failed) return;  // the others are gone or about to go
    wire.reset();
    MPI_Finalize();
  }

  int rank = 0, size = 1, ranks_of_machine = 1;
  std::uint64_t worlds = 0;
  bool has_other_nodes = false;
  std::optional<Window> window;
  std::optional<MpiWire> wire;
  std::vector<Neighbour> neighbours;
  Board* board = nullptr;
  std::optional<MpiEndpoint> end;
};

MpiEndpoint::MpiEndpoint(Job& job, Wire* wire)
    : Endpoint(job.rank, job.neighbours, *job.board, wire, {}, true), job_(job) {}
std::uint64_t MpiEndpoint::next_world() { return job_.worlds++; }
Desk* MpiEndpoint::new_desk() { return new (job_.window->allocate({sizeof(Desk)})) Desk; }
Region MpiEndpoint::memory(Bytes capacity) { return job_.window->region(capacity); }
bool MpiEndpoint::is_shown(const void* address) const { return job_.size == 1 || job_.window->holds(address); }

Job& job() {
  static Job the_job;
  return the_job;
}

// Of several ranks with an error of their own the lowest is left to speak: a higher one waits a moment for it.
bool may_speak(Job& j, Endpoint& end) {
  constexpr double kMost = 0.3;
  const double start = steady_seconds();
  const auto lower_run = [&] {
    for (int r = 0; r < j.rank; ++r) {
      const Status* s = end.status_of(r);
      if (!s || s->phase.load() != Phase::kEnded) return true;
    }
    return false;
  };
  while (lower_run() && end.remote_reason() > j.rank && steady_seconds() < start + kMost) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    end.progress();
  }
  if (end.remote_reason() < j.rank) return false;
  int nobody = -1;
  return j.board->speaker.compare_exchange_strong(nobody, j.rank) || nobody == j.rank;
}

ExitCode code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InvalidInput& e) {
    return e.exit_code;
  } catch (const CommError&) {
    return ExitCode::kHang;
  } catch (const std::bad_alloc&) {
    return ExitCode::kDoesNotFit;
  } catch (...) {
    return ExitCode::kInternal;
  }
}

}  // namespace

bool has_mpi() { return true; }

void run_mpi(const std::function<void(Communicator&)>& body, const CommOptions& given, const Report& report) {
  Job& j = job();
  CommOptions options = given;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (options.spin < 0) options.spin = j.ranks_of_machine <= cores ? 2000 : 50;
  MpiEndpoint& end = *j.end;
  end.set_options(options);
  end.begin();
  std::exception_ptr error;
  bool is_own = true;
  try {
    const auto world = Fabric::world(end), at_end = Fabric::world(end);
    body(*world);
    // Nobody leaves before all have ended. A rank says that it has ended only when it has come to this barrier, so that
    // who waits for it elsewhere knows that it will not come.
    Pending all_ended = at_end->barrier(Site("the end of the run"));
    end.enter(Phase::kEnded);
    all_ended.wait();
  } catch (const PeerFailed&) {
    error = std::current_exception();
    is_own = end.has_dropped();
    if (is_own) error = std::make_exception_ptr(CommError("a started operation was never waited for"));
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) return;
  end.fail();
  if (is_own) end.tell_others(code_of(error));
  if (is_own && may_speak(j, end)) {
    const int code = report ? report(error) : static_cast<int>(code_of(error));
    j.board->exit_code = code;  // behind the text: the others end with it, and mpirun ends whoever is left
    end.enter(Phase::kEnded);
    if (!report) std::rethrow_exception(error);
    throw PeerFailed("said", static_cast<ExitCode>(code));
  }
  end.enter(Phase::kEnded);
  // As long as somebody who may have the word is there.
  constexpr double kMost = 60;
  const auto somebody_may_speak = [&] {
    if (j.board->exit_code.load() != 0) return false;
    for (int r = 0; r < j.size; ++r) {
      const Status* s = end.status_of(r);
      if (s && r != j.rank && s->phase.load() != Phase::kEnded && end.is_alive(*s)) return true;
    }
    return false;
  };
  for (const double start = steady_seconds(); somebody_may_speak() && steady_seconds() < start + kMost;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // mpirun ends all ranks when the first one goes; one on another node may be about to speak.
  if (j.board->exit_code.load() == 0 && j.has_other_nodes) std::this_thread::sleep_for(std::chrono::milliseconds(700));
  const int own_code = j.board->exit_code.load(), code = own_code != 0 ? own_code : j.board->remote_code.load();
  throw PeerFailed("another rank ended", code == 0 ? ExitCode::kHang : static_cast<ExitCode>(code));
}

}  // namespace sextant
