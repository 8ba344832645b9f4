#include "sextant/calibrate/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "sextant/base/errors.h"
#include "sextant/cost/price.h"
#include "sextant/runtime/kernels/gemm.h"
#include "sextant/runtime/train/proof.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Median {
  std::vector<double> values;
  double value() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 1 : sorted[sorted.size() / 2];  // of ranks that do not write down
  }
  // Half of what the middle half of the values spans, of the median.
  double spread() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.size() < 4) return 0;
    return (sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]) / 2 / value();
  }
};

std::string percent(double share) {
  char text[24];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// FLOP/s of one rank while all of them multiply: the three products of a linear op of this shape.
Median product_speed(const OnRanks& on_ranks, int threads, std::int64_t m, std::int64_t n, std::int64_t k, int rounds) {
  Median speed;
  on_ranks([&](Communicator& world) {
    Team team(threads);
    const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
    std::vector<float> x(size(m, k), 0.5F), w(size(n, k), 0.25F), y(size(m, n)), dx(size(m, k)), dw(size(n, k));
    const double flops = 6.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const int repeats = std::max(1, static_cast<int>(4e8 / flops));
    for (int round = 0; round <= rounds; ++round) {
      world.barrier("calibration").wait();
      const double start = now();
      for (int i = 0; i < repeats; ++i) {
        product_forward<float>(team, m, n, k, x.data(), w.data(), nullptr, y.data());
        product_input<float>(team, m, n, k, y.data(), w.data(), false, dx.data());
        product_weight<float>(team, m, n, k, y.data(), x.data(), false, dw.data());
      }
      if (world.rank() == 0 && round > 0) speed.values.push_back(flops * repeats / (now() - start));
    }
  });
  return speed;
}

// Attention's speed goes by the width of heads: models of two. And one of experts.
std::vector<ModelConfig> probes() {
  ModelConfig llama;
  llama.family = "llama";
  llama.layers = 3, llama.width = 384, llama.heads = 6, llama.kv_heads = 2, llama.head_width = 64;
  llama.ffn_width = 1024, llama.vocabulary = 4096, llama.max_positions = 256;
  ModelConfig gpt = llama;
  gpt.family = "gpt2";
  gpt.heads = gpt.kv_heads = 12, gpt.head_width = 32, gpt.ffn_width = 1536;
  gpt.positions = Positions::kLearned, gpt.ffn = Ffn::kGelu, gpt.norm = NormKind::kLayer;
  gpt.qkv_bias = gpt.attention_out_bias = gpt.ffn_bias = gpt.tied_head = true;
  ModelConfig mixture = llama;
  mixture.family = "mixtral", mixture.layers = 2;
  mixture.mixture = {.experts = 8, .expert_width = 384, .router = {.top_k = 2, .normalises = true}};
  mixture.mixture.make_room();
  return {llama, gpt, mixture};
}

// Steps of a model on all ranks at once, each alone on its data: what the kernels of each kind take.
void probe_kernels(const ModelConfig& model, const OnRanks& on_ranks, int threads, int rounds,
                   std::map<std::string, Median>& rates, Median& between) {
  const Workload workload{256, 8, DType::kF32};
  Plan plan;
  plan.microbatch_size = 4, plan.num_microbatches = 2;
  const Program program = build_program(build_model(model, sizes_of(plan, workload)), plan);
  RunConfig config;
  config.model = model, config.workload = workload, config.plan = plan;
  // Work of a step by kind and pass.
  std::map<std::string, double> work;
  std::size_t num_steps = 0;
  const RankProgram& list = program.by_pp[0];
  std::int64_t elements = 0;
  for (const Bucket& bucket : list.buckets) elements += bucket.elements;
  for (const Unit& unit : list.units)
    for (const auto* steps : {&unit.f, &unit.i, &unit.w})
      for (const Step& step : *steps) {
        ++num_steps;
        const std::vector<TensorSpec> in = local_inputs(unit, step, program.mesh);
        const Work w = step.op->work(step.pass, in);
        const double amount =
            step.op->is_product() ? w.flops_causal / room_of(in) : static_cast<double>((w.read + w.written).value);
        work[str(step.op->kind(), " ", name_of(step.pass))] += amount * program.num_microbatches;
      }
  work["optimizer"] = static_cast<double>(elements) * 28;
  std::mutex mutex;
  on_ranks([&](Communicator& world) {
    const std::unique_ptr<Communicator> alone = world.group({world.rank()});
    Executor executor(program, builtin_kernels(), *alone,
                      {.threads = threads,
                       .spin = 20000,
                       .seed = 1,
                       .optimizer = {.kind = OptimizerKind::kAdamW, .learning_rate = 1e-4}});
    executor.initialise();
    for (int round = 0; round <= rounds; ++round) {
      fill_step(executor, config, uneven_samples(model.vocabulary), round, 0);
      world.barrier("calibration").wait();
      const double start = now();
      executor.step(1e-4);
      const double step = now() - start;
      if (world.rank() != 0 || round == 0) continue;
      std::map<std::string, double> spent;
      double inside = 0;
      for (const Event& e : executor.timeline().events) {
        if (holds_others(e.kind)) continue;
        const std::string what = e.what == "OPT_STEP" ? "optimizer" : e.what;
        spent[what] += (e.end - e.start).value, inside += (e.end - e.start).value;
      }
      const std::lock_guard lock(mutex);
      for (const auto& [what, time] : spent)
        if (const auto amount = work.find(what); amount != work.end() && time > 0 && amount->second > 0)
          rates[what].values.push_back(amount->second / time);
      between.values.push_back(std::max(0.0, step - inside) /
                               static_cast<double>(num_steps * static_cast<std::size_t>(program.num_microbatches)));
    }
  });
}

// How much longer ranks take that meet behind every product than ranks that do not: the relative deviation of a rank's
// time, if the slowest of n is `greatest` deviations late.
double meeting_jitter(const OnRanks& on_ranks, int threads, double greatest, int rounds) {
  constexpr std::int64_t m = 1024, n = 384, k = 384;
  constexpr int kMeetings = 20;
  Median apart, together;
  on_ranks([&](Communicator& world) {
    Team team(threads);
    std::vector<float> x(m * k, 0.5F), w(n * k, 0.25F), y(m * n);
    double meet = 0;
    for (int round = 0; round <= rounds; ++round)
      for (const bool meets : {false, true}) {
        world.barrier("calibration").wait();
        const double start = now();
        for (int i = 0; i < kMeetings; ++i) {
          for (int p = 0; p < 3; ++p) product_forward<float>(team, m, n, k, x.data(), w.data(), nullptr, y.data());
          if (meets) world.all_reduce({&meet, 1, DType::kF64}, "calibration").wait();
        }
        if (world.rank() == 0 && round > 0) (meets ? together : apart).values.push_back(now() - start);
      }
  });
  return std::max(0.0, (together.value() / apart.value() - 1) / greatest);
}

// Times of all-reduces over so many ranks: a start, and bytes.
std::pair<double, double> line_through(const std::vector<std::pair<double, double>>& points) {
  // Weighted by 1 / time^2: relative errors count.
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, time] : points) {
    const double weight = 1 / (time * time);
    w += weight, x += weight * bytes, y += weight * time, xx += weight * bytes * bytes, xy += weight * bytes * time;
  }
  const double slope = (w * xy - x * y) / (w * xx - x * x);
  return {std::max(0.0, (y - slope * x) / w), std::max(1e-15, slope)};
}

// All-reduces of the first `members` ranks, by size: bytes that a rank moves, and seconds.
std::vector<std::pair<double, double>> all_reduce_times(const OnRanks& on_ranks, int members, int rounds) {
  std::vector<std::pair<double, double>> points;
  for (const std::int64_t bytes : {std::int64_t{4} << 10, std::int64_t{64} << 10, std::int64_t{1} << 20,
                                   std::int64_t{4} << 20, std::int64_t{16} << 20}) {
    Median time;
    on_ranks([&](Communicator& world) {
      if (world.rank() >= members) return;
      std::vector<int> ranks(static_cast<std::size_t>(members));
      std::iota(ranks.begin(), ranks.end(), 0);
      const std::unique_ptr<Communicator> group = world.group(ranks);
      std::vector<float> data(static_cast<std::size_t>(bytes / 4), 1.0F);
      for (int round = 0; round <= 2 * rounds; ++round) {
        group->barrier("calibration").wait();
        const double start = now();
        group->all_reduce(payload(std::span(data)), "calibration").wait();
        if (world.rank() == 0 && round > 0) time.values.push_back(now() - start);
      }
    });
    points.emplace_back(2.0 * (members - 1) / members * static_cast<double>(bytes), std::max(1e-9, time.value()));
  }
  return points;
}

}  // namespace

Calibration calibrate(int ranks, int threads, const OnRanks& on_ranks,
                      const std::function<void(const std::string&)>& progress) {
  const auto say = [&](const std::string& what) {
    if (progress) progress(what);
  };
  constexpr int kRounds = 7;
  Calibration out;
  Device& d = out.cluster.device;
  out.cluster.name = "this-machine";
  d.name = str("rank of ", threads, threads == 1 ? " thread, " : " threads, ", ranks, " at once");
  d.overlaps = false;
  d.memory = {static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / ranks};
  d.reserve = {std::int64_t{64} << 20};
  d.units = 1, d.tile = {16, 16};

  say("products by shape");
  struct Shape {
    std::int64_t m, n, k;
  };
  const Shape shapes[] = {{1024, 1024, 1024}, {1024, 384, 384}, {1024, 1536, 384}, {2048, 512, 512},
                          {512, 2048, 768},   {256, 768, 768},  {2048, 192, 192},  {2048, 512, 192}};
  std::vector<Median> speeds;
  double best = 0;
  for (const Shape& s : shapes) {
    speeds.push_back(product_speed(on_ranks, threads, s.m, s.n, s.k, kRounds));
    best = std::max(best, speeds.back().value());
  }
  const auto typical = [](const std::vector<Median>& of) {  // geometric mean
    double sum = 0;
    for (const Median& m : of) sum += std::log(m.value());
    return std::exp(sum / static_cast<double>(of.size()));
  };
  out.speed = typical(speeds);
  d.fp32 = best, d.bf16 = best, d.matmul_ceiling = 1;
  // Two constants through the shapes: half_depth by trying, sustained by the mean of what is left.
  double least = 1e9;
  for (double depth = 0; depth <= 128; depth += 2) {
    Device trial = d;
    trial.half_depth = depth, trial.sustained = 1, trial.bandwidth = 1e15, trial.memory_share = 1;
    double log_sum = 0, log_squares = 0;
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      const auto m = static_cast<double>(shapes[i].m), n = static_cast<double>(shapes[i].n),
                 k = static_cast<double>(shapes[i].k);
      const double predicted = product_time({m, n, k}, DType::kF32, trial).value +
                               product_time({m, k, n}, DType::kF32, trial).value +
                               product_time({n, k, m}, DType::kF32, trial).value;
      const double off = std::log(6 * m * n * k / speeds[i].value() / predicted);
      log_sum += off, log_squares += off * off;
    }
    const double n = static_cast<double>(speeds.size()), mean = log_sum / n, variance = log_squares / n - mean * mean;
    if (variance < least) least = variance, d.half_depth = depth, d.sustained = std::min(1.0, std::exp(-mean));
  }
  out.notes.push_back(str("products: best ", best / 1e9, " GFLOP/s a rank (+- ", percent(speeds[0].spread()),
                          "), shapes within ", percent(std::sqrt(least)), " of the two constants"));

  say("kernels in steps of three small models");
  Median between;
  double memory = 0;
  std::map<std::string, std::vector<double>> found;  // by model
  std::map<std::string, double> spreads;
  for (const ModelConfig& model : probes()) {
    const std::map<std::string, std::vector<double>> before = found;
    std::map<std::string, Median> rates;
    probe_kernels(model, on_ranks, threads, kRounds, rates, between);
    for (const auto& [what, rate] : rates) {
      if (what.rfind("linear", 0) == 0) continue;  // by shape
      // Of experts only what no other model has: rows that are not there make the rest look other than it is.
      if (model.mixture.experts > 0 && before.contains(what)) continue;
      found[what].push_back(rate.value());
      spreads[what] = std::max(spreads[what], rate.spread());
      if (what.rfind("residual", 0) == 0) memory = std::max(memory, rate.value());
    }
  }
  for (const auto& [what, values] : found) {
    double inverse = 0;  // what the models take together
    for (const double rate : values) inverse += 1 / rate;
    d.rates[what] = static_cast<double>(values.size()) / inverse;
    out.notes.push_back(str(what, ": +- ", percent(spreads[what])));
  }
  d.bandwidth = std::max(memory, 1e9), d.memory_share = 1;
  d.attention_ceiling = std::clamp(d.rates["attention F"] / best, 0.01, 1.0);
  d.launch = {between.value()};

  Level level;
  level.name = "memory", level.size = std::max(64, ranks);
  level.bandwidth = 5e9;
  level.latency.fill({5e-6});
  if (ranks > 1) {
    say("collectives between the ranks");
    std::vector<std::pair<double, double>> points;  // of all ranks: bytes that one moves, seconds
    double start = 0, per_byte = 0;
    for (int members = 2; members <= ranks; members *= 2) {
      const int size = members * 2 > ranks ? ranks : members;
      points = all_reduce_times(on_ranks, size, kRounds);
      std::tie(start, per_byte) = line_through(points);
      out.notes.push_back(str("all-reduce of ", size, " ranks: ", start * 1e6, " us and ", 1e-9 / per_byte, " GB/s"));
    }
    // The model's own base (of a library on an accelerator) is taken off again.
    constexpr double kBase = 6.6e-6;
    d.call = {std::max(0.0, start - kBase)};
    level.latency.fill({1e-7});
    level.bandwidth = 1 / per_byte;
    d.jitter = meeting_jitter(on_ranks, threads, greatest_of(ranks), kRounds);
    out.notes.push_back(str("ranks that meet behind every product: jitter ", percent(d.jitter)));
    double worst = 0;
    for (const auto& [bytes, time] : points) worst = std::max(worst, std::abs((start + per_byte * bytes) / time - 1));
    out.notes.push_back(str("the line through the sizes of the last: worst off by ", percent(worst)));
  }
  out.cluster.levels.push_back(level);

  std::vector<Median> again;
  for (const Shape& s : shapes) again.push_back(product_speed(on_ranks, threads, s.m, s.n, s.k, kRounds));
  out.drift = typical(again) / out.speed - 1;
  out.notes.push_back(str("drift of products from start to end: ", percent(out.drift)));
  return out;
}

}  // namespace sextant
