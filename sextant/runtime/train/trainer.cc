#include "sextant/runtime/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "sextant/base/atomic_file.h"
#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/runtime/checkpoint/weights.h"
#include "sextant/runtime/comm/threads.h"
#include "sextant/runtime/data/tokenizer.h"
#include "sextant/runtime/train/agreement.h"
#include "sextant/runtime/train/whole.h"

namespace sextant {
namespace {

Seconds now() { return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()}; }

// Steps whose numbers went wrong before a run is given up.
constexpr int kMostSkippedInARow = 3;

Bytes physical_memory() { return {static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)}; }

}  // namespace

void fill_step(Executor& executor, const RunConfig& config, const SampleSource& source, std::int64_t step,
               int data_rank) {
  const std::int64_t sequence = config.workload.sequence, b = config.plan.microbatch_size;
  const auto length = static_cast<std::size_t>(sequence);
  // Made whole, then handed to the tensors of the model: it may not use all of them (no dropout: no token numbers), and
  // ranks may see slices.
  std::vector<std::int32_t> ids(length), labels(length), positions(length), first(length), last(length);
  std::vector<std::int64_t> tokens(length);
  for (int m = 0; m < config.plan.num_microbatches; ++m)
    for (std::int64_t i = 0; i < b; ++i) {
      const std::int64_t sample =
          step * config.workload.global_batch + (m * config.plan.data_ranks() + data_rank) * b + i;
      source(sample, {ids, labels, positions, first, last, tokens});
      for (std::size_t s = 0; s < length; ++s)
        if (ids[s] < 0 || ids[s] >= config.model.vocabulary || labels[s] >= config.model.vocabulary)
          throw InvalidInput(str(printable(config.train_data), ": token ", std::max(ids[s], labels[s]),
                                 " is outside the model's vocabulary of ", config.model.vocabulary,
                                 ", though the file was checked at the start; do not change it during a run"),
                             ExitCode::kCorrupt);
      const auto put = [&](const char* name, const auto& values) {
        using T = typename std::remove_reference_t<decltype(values)>::value_type;
        executor.put<T>(name, m, i, std::span<const T>(values));
      };
      put("ids", ids), put("labels", labels), put("positions", positions), put("first", first), put("last", last);
      put("tokens", tokens);
    }
}

void require_memory(const std::string& what, const MemoryPlan& plan, int ranks) {
  if (plan.peak * ranks <= physical_memory()) return;
  throw InvalidInput(
      str(printable(what), ": ", ranks, ranks == 1 ? " rank needs " : " ranks need ", human(plan.peak * ranks),
          " (peak ", human(plan.peak), " a rank, in ", plan.peak_where, "), this machine has ",
          human(physical_memory()), "; use a smaller plan.microbatch_size, workload.sequence or model"),
      ExitCode::kDoesNotFit);
}

std::vector<std::string> files_of(const RunConfig& config) {
  return {config.file, config.model_file, config.train_data, config.tokenizer, config.initial_weights};
}

Prepared prepare(const RunConfig& config, int ranks_here) {
  const Tokens tokens = Tokens::open(config.train_data);
  if (!config.tokenizer.empty()) {
    const Tokenizer tokenizer = Tokenizer::open(config.tokenizer);
    if (tokenizer.digest() != tokens.tokenizer())
      throw InvalidInput(str(printable_path(config.train_data), ": was not made with data.tokenizer ",
                             printable_path(config.tokenizer), "; make it with: sextant data TEXT --tokenizer ",
                             printable_path(config.tokenizer), " --out FILE"));
  }
  if (tokens.vocabulary() > config.model.vocabulary)
    throw InvalidInput(str(printable(config.train_data), ": has a vocabulary of ", tokens.vocabulary(),
                           ", the model one of ", config.model.vocabulary,
                           "; use vocab_size >= ", tokens.vocabulary()));
  WindowSampler sampler(tokens, config.workload.sequence, config.seed, config.packing);
  Model model = build_model(config.model, sizes_of(config.plan, config.workload));
  std::optional<WeightFiles> initial;  // names and shapes first: they say most about what is wrong
  if (!config.initial_weights.empty())
    initial = WeightFiles::open(config.initial_weights), check_weights(*initial, model);
  Program program = build_program(model, config.plan);
  std::vector<MemoryPlan> memory;
  std::size_t worst = 0;
  for (int pp = 0; pp < static_cast<int>(program.by_pp.size()); ++pp) {
    memory.push_back(plan_memory(program, pp, state_bytes_per_element(program, config.optimizer.kind),
                                 data_bytes(program, pp), config.threads));
    if (memory.back().peak > memory[worst].peak) worst = memory.size() - 1;
  }
  require_memory(config.file, memory[worst], ranks_here > 0 ? ranks_here : config.plan.num_ranks());
  return {std::move(model), std::move(program), std::move(memory), worst,
          tokens,           std::move(sampler), std::move(initial)};
}

namespace {

// One run on its way. Threads share it, each process has its own; only the first rank writes to it.
class Run {
 public:
  Run(const RunConfig& config, const TrainHooks& hooks, int ranks_here, int ranks_in_process)
      : config_(config),
        hooks_(hooks),
        ranks_in_process_(ranks_in_process),
        prepared_(prepare(config, ranks_here)),
        kernels_(builtin_kernels()) {}

  const Prepared& prepared() const { return prepared_; }
  int cores() const { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }
  CommOptions comm_options() const {
    return {.timeout = config_.timeout,
            .dump = config_.output.empty() ? "sextant-collectives.json" : config_.output + "/collectives.json"};
  }
  void require_output() const;
  void start(double peak_flops) {
    summary_.peak_flops = peak_flops;
    if (hooks_.on_start) hooks_.on_start(prepared_, peak_flops);
    resident_before_ = resident();
  }
  void train(Communicator& world);
  RunSummary finish(double peak_flops);

 private:
  std::string config_file() const { return config_.output + "/config.json"; }
  void give_up_if_bad(const StepResult& result, std::int64_t step, int skipped_in_a_row, bool is_last) const;
  void note(Executor& executor, std::int64_t step, const StepResult& result, Seconds time);
  void summarise(const Executor& executor);
  void save(Executor& executor, bool is_first);

  const RunConfig& config_;
  const TrainHooks& hooks_;
  const int ranks_in_process_;
  Prepared prepared_;
  KernelTable kernels_;
  RunSummary summary_;
  Bytes resident_before_;
  std::vector<Seconds> times_;
  std::map<std::string, Seconds> time_by_what_;
};

// The timelines of all ranks, on the first one. Clocks of machines have nothing in common: a barrier is the origin.
Timeline gather_timeline(Communicator& world, const Timeline& own) {
  world.barrier("origin of timelines").wait();
  std::vector<std::byte> bytes = pack(own.events, now());
  const auto payload_of = [](std::vector<std::byte>& b) {
    return Payload{b.data(), static_cast<std::int64_t>(b.size()), DType::kU8};
  };
  std::int64_t size = static_cast<std::int64_t>(bytes.size());
  if (world.rank() != 0) {
    world.send({&size, 1, DType::kI64}, 0, 0, "size of a timeline").wait();
    world.send(payload_of(bytes), 0, 1, "timeline").wait();
    return {};
  }
  std::vector<Timeline> all{{unpack(bytes), {}, {}}};
  for (int rank = 1; rank < world.size(); ++rank) {
    world.recv({&size, 1, DType::kI64}, rank, 0, "size of a timeline").wait();
    bytes.resize(static_cast<std::size_t>(size));
    world.recv(payload_of(bytes), rank, 1, "timeline").wait();
    all.push_back({unpack(bytes), {}, {}});
  }
  return join(all);
}

void Run::require_output() const {
  if (config_.output.empty()) return;
  make_folder(config_.output, "train.output");
  for (const std::string& file : {config_.output + "/model.safetensors", config_file()}) {
    require_writable(file, "train.output");
    // The config and weights that this run starts from are read by then, and may be replaced.
    require_apart(file, "train.output", {config_.file, config_.train_data, config_.tokenizer});
    require_apart(config_.metrics, "train.metrics", {file});
  }
}

void Run::train(Communicator& world) {
  const int ranks_here = world.ranks_here();
  Executor executor(prepared_.program, kernels_, world,
                    {.threads = config_.threads,
                     .spin = ranks_here * config_.threads <= cores() ? 20000 : 0,
                     .seed = config_.seed,
                     .optimizer = config_.optimizer});
  world.enter(Phase::kLoading);
  if (!prepared_.initial)
    executor.initialise();
  else
    load_weights(*prepared_.initial, prepared_.model, executor);
  const Coordinates own = coordinates_of(world.rank() % prepared_.program.mesh.num_ranks(), prepared_.program.mesh);
  const int data_rank = own.dp_replicate * prepared_.program.mesh[Axis::kDpShard] + own.dp_shard;
  int skipped_in_a_row = 0;
  for (std::int64_t step = 0; step < config_.steps; ++step) {
    const Seconds start = now();
    world.enter(Phase::kData);
    fill_step(executor, config_, std::cref(prepared_.sampler), step, data_rank);
    const StepResult result = executor.step(learning_rate(config_.optimizer, step, config_.steps),
                                            hooks_.should_stop && hooks_.should_stop());
    const bool ends = step + 1 == config_.steps || step + 1 == config_.stop_after, is_last = ends || result.stop;
    skipped_in_a_row = result.skipped ? skipped_in_a_row + 1 : 0;
    if (world.rank() == 0) {
      world.enter(Phase::kReporting);
      note(executor, step, result, now() - start);
      summary_.interrupted = result.stop && !ends;
    }
    give_up_if_bad(result, step, skipped_in_a_row, is_last);
    if (is_last) break;
  }
  world.enter(Phase::kReporting);
  Timeline last_step = gather_timeline(world, executor.timeline());
  if (world.rank() == 0) summary_.last_step = std::move(last_step);
  world.enter(Phase::kSaving);
  if (world.rank() == 0) summarise(executor);
  if (!config_.output.empty()) save(executor, world.rank() == 0);
  world.barrier("weights are saved").wait();
}

void Run::note(Executor& executor, std::int64_t step, const StepResult& result, Seconds time) {
  summary_.steps = step + 1;
  summary_.losses.push_back(result.loss);
  summary_.skipped += result.skipped;
  times_.push_back(time);
  for (const auto& [what, spent] : total_by_what(executor.timeline())) time_by_what_[what] += spent;
  if (hooks_.on_step) hooks_.on_step({step, result, time, resident()});
}

void Run::give_up_if_bad(const StepResult& result, std::int64_t step, int skipped_in_a_row, bool is_last) const {
  if (skipped_in_a_row != kMostSkippedInARow && !(skipped_in_a_row > 0 && is_last)) return;
  if (result.tokens == 0)
    throw InvalidInput(str("step ", step + 1, ": ", result.reason,
                           "; the label behind the end of a document is ignored, so give longer documents or "
                           "data.documents = \"joined\""),
                       ExitCode::kInvalid);
  throw InvalidInput(
      str("step ", step + 1, ": ", result.reason,
          skipped_in_a_row > 1 ? str(", for the ", skipped_in_a_row == 2 ? "2nd" : "3rd", " step in a row") : "",
          "; nothing was updated. Try optimizer.learning_rate=", config_.optimizer.learning_rate / 10,
          " or optimizer.warmup_steps=", std::max<std::int64_t>(100, 2 * config_.optimizer.warmup_steps)),
      ExitCode::kDiverged);
}

void Run::summarise(const Executor& executor) {
  summary_.comm = executor.received();
  summary_.predicted_comm = executor.promised() * summary_.steps;
  summary_.peak_memory = executor.pool().peak();
  summary_.predicted_peak_memory = executor.memory_plan().peak;
  for (int t = 0; t < kNumMemoryTags; ++t)
    summary_.peak_by_tag[static_cast<std::size_t>(t)] = executor.pool().at_peak()[static_cast<std::size_t>(t)];
  summary_.resident_peak = resident_peak();
  // All ranks as threads, or this one alone.
  Bytes pools = executor.memory_plan().peak;
  if (ranks_in_process_ > 1) {
    pools = {};
    for (const MemoryPlan& plan : prepared_.memory) pools += plan.peak * prepared_.program.mesh.num_ranks();
  }
  summary_.predicted_resident = resident_before_ + pools;
}

void Run::save(Executor& executor, bool is_first) {
  save_weights(config_.output, prepared_.model, executor, is_first, config_.shard);
  if (!is_first) return;
  Value source = config_to_write(config_.model, config_.workload.dtype);
  source.set("_trained_sequence", config_.workload.sequence);
  // Which tokenizer made the data: `generate` takes no other.
  const Tokens& tokens = prepared_.tokens;
  source.set("_tokenizer", tokens.tokenizer() == 0 ? std::string("bytes") : str(std::hex, tokens.tokenizer()));
  if (tokens.tokenizer() != 0) source.set("eos_token_id", static_cast<std::int64_t>(tokens.end_of_text()));
  write_file(config_file(), to_json(source, true) + "\n");
  if (!config_.tokenizer.empty()) {
    const std::string copy = config_.output + "/tokenizer.json";
    if (!same_file(copy, config_.tokenizer)) write_file(copy, read_file(config_.tokenizer, std::int64_t{1} << 28));
  }
}

RunSummary Run::finish(double peak_flops) {
  // A busy moment makes the peak look lower than it is; the better of before and after counts.
  summary_.peak_flops = std::max(summary_.peak_flops, peak_flops);
  std::vector<Seconds> sorted = times_;
  std::sort(sorted.begin(), sorted.end());
  summary_.step_time = sorted[sorted.size() / 2];
  summary_.tokens_per_s =
      static_cast<double>(config_.workload.global_batch * config_.workload.sequence) / summary_.step_time.value;
  summary_.mfu = model_flops(prepared_.program) / summary_.step_time.value / summary_.peak_flops;
  summary_.time_by_what.assign(time_by_what_.begin(), time_by_what_.end());
  std::stable_sort(summary_.time_by_what.begin(), summary_.time_by_what.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return std::move(summary_);
}

void require_trained(const RunConfig& config) {
  if (const std::string why = config.model.not_trained(); !why.empty())
    throw InvalidInput(str(printable(config.file), ": [model] config: ", config.model.family, ": ", why));
  if (config.model.mixture.experts > 0 && !(config.output.empty() && config.initial_weights.empty()))
    throw InvalidInput(
        str(printable(config.file),
            ": [train] output and initial_weights: weights of mixtures of experts are not written or read "
            "yet; leave them out"));
  if (config.workload.dtype == DType::kBf16)
    throw InvalidInput(str(printable(config.file),
                           ": [workload] precision: \"bf16\" is planned and simulated, not trained yet; use \"fp32\""));
}

}  // namespace

RunSummary train(const RunConfig& config, const TrainHooks& hooks) {
  // Whatever can be wrong is found before the first step.
  require_trained(config);
  const int ranks = config.plan.num_ranks();
  Run run(config, hooks, ranks, ranks);
  run.require_output();
  const int threads = std::min(run.cores(), ranks * config.threads);
  run.start(measured_peak_flops(threads));
  run_threads(
      ranks, [&](Communicator& world) { run.train(world); }, run.comm_options(), hooks.report);
  return run.finish(measured_peak_flops(threads));
}

RunSummary train(const RunConfig& config, const TrainHooks& hooks, Communicator& world) {
  check(config.plan.num_ranks() == world.size(), "a plan is read for the ranks of its job");
  require_trained(config);
  const bool first = world.rank() == 0;
  Run run(config, hooks, world.ranks_here(), 1);
  world.set_options(run.comm_options());
  if (first) run.require_output();
  agree(world, config, run.prepared());
  // Of all ranks at once. Where threads share cores, each has a core for itself in its best moment.
  const double cores_a_thread = std::min(1.0, static_cast<double>(run.cores()) / (world.ranks_here() * config.threads));
  const auto peak = [&] {
    world.barrier("before the peak is measured").wait();
    double sum = measured_peak_flops(config.threads) * cores_a_thread;
    world.all_reduce({&sum, 1, DType::kF64}, "peak of all ranks").wait();
    return sum;
  };
  const double before = peak();
  if (first) run.start(before);
  run.train(world);
  const double after = peak();
  return first ? run.finish(after) : RunSummary{};
}

Value to_value(const RunSummary& s) {
  Value v;
  v.set("steps", s.steps);
  v.set("skipped_steps", s.skipped);
  v.set("interrupted", s.interrupted);
  Value::Array losses;
  for (const double loss : s.losses) losses.emplace_back(loss);
  v.set("losses", std::move(losses));
  v.set("final_loss", s.losses.empty() ? Value() : Value(s.losses.back()));
  v.set("tokens_per_s", s.tokens_per_s);
  v.set("step_time_s", s.step_time.value);
  v.set("mfu", s.mfu);
  v.set("peak_flops_per_s", s.peak_flops);
  v.set("peak_memory_bytes", s.peak_memory.value);
  v.set("predicted_peak_memory_bytes", s.predicted_peak_memory.value);
  Value tags{Value::Object{}};
  for (int t = 0; t < kNumMemoryTags; ++t)
    tags.set(name_of(static_cast<MemoryTag>(t)), s.peak_by_tag[static_cast<std::size_t>(t)].value);
  v.set("peak_memory_by_tag_bytes", std::move(tags));
  v.set("resident_peak_bytes", s.resident_peak.value);
  v.set("predicted_resident_bytes", s.predicted_resident.value);
  v.set("comm_bytes", s.comm.total().value);
  v.set("predicted_comm_bytes", s.predicted_comm.total().value);
  const auto by_group = [](const StepBytes& b) {
    Value g{Value::Object{}};
    g.set("dp_shard_cp", b[Group::kZero].value);
    g.set("dp_replicate", b[Group::kReplicas].value);
    g.set("data", b[Group::kData].value);
    g.set("tp", b[Group::kTensor].value);
    g.set("cp", b[Group::kContext].value);
    g.set("edp", b[Group::kExpertZero].value);
    g.set("ep", b[Group::kExpert].value);
    g.set("etp", b[Group::kExpertTensor].value);
    g.set("copies", b[Group::kCopies].value);
    g.set("holders", b[Group::kHolders].value);
    g.set("world", b[Group::kWorld].value);
    g.set("messages", b.messages.value);
    return g;
  };
  v.set("comm_by_group_bytes", by_group(s.comm));
  v.set("predicted_comm_by_group_bytes", by_group(s.predicted_comm));
  Value times{Value::Object{}};
  for (const auto& [what, time] : s.time_by_what) times.set(what, time.value);
  v.set("time_by_what_s", std::move(times));
  return v;
}

}  // namespace sextant
