#include "sextant/runtime/train/proof.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "sextant/base/digest.h"
#include "sextant/base/errors.h"
#include "sextant/base/random.h"

namespace sextant {

namespace {

std::uint64_t digest_of(const ProofOutcome& outcome) {
  std::vector<double> values;
  for (const StepResult& r : outcome.results)
    for (const double v : {r.loss, r.grad_norm, r.skipped ? 1.0 : 0.0}) values.push_back(v);
  for (const auto& [name, weights] : outcome.weights) values.insert(values.end(), weights.begin(), weights.end());
  for (double& v : values)
    if (std::isnan(v)) v = 0.125;  // whatever its bits
  return digest(std::as_bytes(std::span(values)));
}

}  // namespace

ProofOutcome prove(const ProofRun& run) {
  validate(run.plan, run.model, run.workload, "proof");
  const Model model = run.build(run.model, sizes_of(run.plan, run.workload));
  const Program program = build_program(model, run.plan);
  const KernelTable builtin = builtin_kernels();
  RunConfig config;
  config.model = run.model, config.workload = run.workload, config.plan = run.plan;
  ProofOutcome out;
  std::mutex mutex;
  run.launch(run.plan.num_ranks(), [&](Communicator& world) {
    ProofOutcome own;
    Executor executor(
        program, run.kernels ? *run.kernels : builtin, world,
        {.threads = run.threads, .spin = 0, .seed = 5, .poison = Poison::kOn, .optimizer = run.optimizer});
    executor.initialise();
    // Biases and norm weights start at 0 and 1, where mistakes hide; here they start anywhere.
    for (const Parameter* p : model.parameters()) {
      if (p->is_matrix) continue;
      const RandomStream random(6, Purpose::kTest, hash_name(p->spec.name));
      const auto move = [&](std::int64_t i, auto& value) {
        value +=
            static_cast<std::remove_reference_t<decltype(value)>>(0.2 * random.normal(static_cast<std::uint64_t>(i)));
      };
      if (run.workload.dtype == DType::kF64)
        executor.for_each_value<double>(p->spec.name, move);
      else
        executor.for_each_value<float>(p->spec.name, move);
    }
    const auto snapshot = [&](bool gradients) {
      std::map<std::string, std::vector<double>> all;
      for (const Parameter* p : model.parameters()) {
        const auto take = [&](const auto& x) { all[p->spec.name].assign(x.begin(), x.end()); };
        if (run.workload.dtype == DType::kF64)
          take(executor.gather<double>(*p, gradients));
        else
          take(executor.gather<float>(*p, gradients));
      }
      return all;
    };
    own.initial = snapshot(false);
    const Coordinates c = coordinates_of(world.rank() % program.mesh.num_ranks(), program.mesh);
    for (int step = 0; step < run.steps; ++step) {
      fill_step(executor, config, run.source, step, c.dp_replicate * program.mesh[Axis::kDpShard] + c.dp_shard);
      if (run.before_step) run.before_step(world.rank(), step);
      own.results.push_back(executor.step(run.optimizer.learning_rate));
      if (step == 0) own.gradients = snapshot(true);
    }
    own.weights = snapshot(false);
    own.bytes_match = executor.received() == executor.promised() * run.steps;
    own.peak_matches = executor.pool().peak() == executor.memory_plan().peak;
    for (int t = 0; t < kNumMemoryTags; ++t)
      own.peak_matches &= executor.pool().at_peak()[static_cast<std::size_t>(t)] ==
                          executor.memory_plan().at_peak[static_cast<std::size_t>(t)];
    own.peak = executor.pool().peak();
    // Every rank's verdict on its own bytes and peak, and a digest of what must be equal on all.
    const std::uint64_t bits = digest_of(own);
    std::int64_t mine[3] = {own.bytes_match ? 0 : 1, own.peak_matches ? 0 : 1, static_cast<std::int64_t>(bits)};
    std::vector<std::int64_t> all(3 * static_cast<std::size_t>(world.size()));
    world.all_gather({mine, 3, DType::kI64}, payload(std::span(all)), "verdicts of the proof").wait();
    for (std::size_t r = 0; r < all.size(); r += 3) {
      own.bytes_match &= all[r] == 0;
      own.peak_matches &= all[r + 1] == 0;
      own.ranks_agree &= all[r + 2] == mine[2];
    }
    const std::lock_guard lock(mutex);
    if (world.rank() == 0 || out.results.empty()) out = std::move(own);
  });
  return out;
}

Worst compare(const std::map<std::string, std::vector<double>>& a,
              const std::map<std::string, std::vector<double>>& b) {
  Worst worst;
  check(a.size() == b.size(), "both runs have the same tensors");
  // A gradient that is zero in theory (of GPT-2's key bias: softmax ignores what all scores share) is rounding noise;
  // it is measured against the greatest value of all tensors, of which 1e-10 of a 1e-5th is float64 rounding (1e-15).
  double all = 0;
  for (const auto& [name, y] : b)
    for (const double v : y) all = std::max(all, std::abs(v));
  for (const auto& [name, x] : a) {
    const auto& y = b.at(name);
    check(x.size() == y.size(), "a tensor has one size");
    const bool is_zero_in_theory = name.ends_with(".k.b");
    double difference = 0, greatest = 0;
    bool finite = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference = std::max(difference, std::abs(x[i] - y[i]));
      greatest = std::max(greatest, std::abs(y[i]));
      finite &= std::isfinite(x[i]) && std::isfinite(y[i]);
    }
    const double error = !finite ? INFINITY
                         : difference == 0
                             ? 0
                             : difference / (is_zero_in_theory ? std::max(greatest, 1e-5 * all) : greatest);
    if (error > worst.error) worst = {error, name};
  }
  return worst;
}

namespace {

SampleSource masked_samples(std::int64_t vocabulary,
                            const std::function<bool(std::int64_t sample, std::int64_t token)>& keeps) {
  return [=](std::int64_t sample, const SampleView& view) {
    fill_causal(sample, view);
    const RandomStream random(3, Purpose::kTest, static_cast<std::uint64_t>(sample));
    for (std::size_t s = 0; s < view.ids.size(); ++s) {
      view.ids[s] = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary), 2 * s));
      const auto label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary), 2 * s + 1));
      view.labels[s] = keeps(sample, static_cast<std::int64_t>(s)) ? label : kIgnored;
    }
  };
}

}  // namespace

SampleSource uneven_samples(std::int64_t vocabulary) {
  return masked_samples(vocabulary, [](std::int64_t sample, std::int64_t token) {
    const RandomStream random(4, Purpose::kTest, static_cast<std::uint64_t>(sample));
    return sample % 5 != 4 &&
           random.uniform(static_cast<std::uint64_t>(token)) < 0.25 * static_cast<double>(sample % 5 + 1);
  });
}

SampleSource samples_with_valid(std::int64_t vocabulary, const std::vector<int>& valid) {
  return masked_samples(vocabulary, [=](std::int64_t sample, std::int64_t token) {
    return token < valid[static_cast<std::size_t>(sample) % valid.size()];
  });
}

}  // namespace sextant
