#include "sextant/runtime/train/run_config.h"

#include <algorithm>
#include <thread>

#include "sextant/base/errors.h"

namespace sextant {

RunConfig read_run(const std::string& path, const std::vector<Override>& overrides, int ranks, int ranks_here) {
  PlanFile read = read_plan_file(path, overrides, ranks);
  const Value& run = read.sections;
  RunConfig c;
  c.file = path;
  c.model = std::move(read.model), c.model_file = std::move(read.model_file);
  c.model.mixture.make_room();
  c.settings = to_json(run) + to_json(c.model.source);
  c.workload = read.workload, c.plan = std::move(read.plan), c.cluster = std::move(read.cluster);
  c.optimizer = read_optimizer(run, path);

  Fields data(run.find("data"), path, "[data]");
  c.train_data = resolved(data.text("train"), path);
  c.tokenizer = resolved(data.text_or("tokenizer", ""), path);
  c.packing = data.one_of_or("documents", "joined", {"joined", "separate"}) == "separate" ? Packing::kSeparate
                                                                                          : Packing::kIgnore;
  data.finish();

  Fields train(run.find("train"), path, "[train]");
  c.steps = train.integer_or("steps", 100, 1, std::int64_t{1} << 40);
  c.stop_after = train.integer_or("stop_after", 0, 0, c.steps);
  c.seed = static_cast<std::uint64_t>(train.integer_or("seed", 1, 0));
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  c.threads = static_cast<int>(
      train.integer_or("threads", std::max(1, cores / (ranks_here > 0 ? ranks_here : c.plan.num_ranks())), 1, 1024));
  c.log_every = train.integer_or("log_every", std::max<std::int64_t>(1, c.steps / 50), 1);
  c.timeout = {train.number_or("timeout_s", 0, 0, 1e6)};
  c.metrics = resolved(train.text_or("metrics", ""), path);
  c.output = resolved(train.text_or("output", ""), path);
  c.shard = {train.integer_or("shard_bytes", c.shard.value, 1)};
  c.initial_weights = resolved(train.text_or("initial_weights", ""), path);
  train.finish();

  validate(c.plan, c.model, c.workload, path);
  return c;
}

}  // namespace sextant
