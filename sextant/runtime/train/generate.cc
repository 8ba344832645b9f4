#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/base/random.h"
#include "sextant/runtime/checkpoint/weights.h"
#include "sextant/runtime/comm/threads.h"
#include "sextant/runtime/data/tokenizer.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant {
namespace {

// A token drawn from softmax(logits / temperature); the greatest at temperature 0.
std::int32_t draw(std::span<const float> logits, double temperature, double uniform) {
  const auto greatest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(greatest - logits.begin());
  double sum = 0;
  for (const float l : logits) sum += std::exp((l - *greatest) / temperature);
  double left = uniform * sum;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= std::exp((logits[i] - *greatest) / temperature);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(logits.size()) - 1;
}

Tokenizer tokenizer_of(const GenerateOptions& options, const ModelConfig& config) {
  const Value* trained = config.source.find("_tokenizer");
  const auto* digest = trained ? std::get_if<std::string>(&trained->data) : nullptr;
  const std::string own = options.folder + "/tokenizer.json";
  const bool has_own = std::filesystem::exists(own) && !(digest && *digest == "bytes");
  Tokenizer tokenizer = !options.tokenizer.empty() ? Tokenizer::open(options.tokenizer)
                        : has_own                  ? Tokenizer::open(own)
                                                   : Tokenizer::bytes();
  if (digest && *digest != (tokenizer.is_bytes() ? "bytes" : str(std::hex, tokenizer.digest())))
    throw InvalidInput(str(printable_path(options.folder), ": was trained on tokens of ",
                           *digest == "bytes" ? "bytes" : "another tokenizer", ", not of ",
                           printable_path(tokenizer.name()),
                           *digest == "bytes" ? "; leave out --tokenizer" : "; give the right one with --tokenizer"));
  return tokenizer;
}

}  // namespace

void generate(const GenerateOptions& options, const std::function<void(std::string_view)>& on_text) {
  const std::string config_file = options.folder + "/config.json";
  const ModelConfig config = read_config(parse_json(read_file(config_file, 1 << 20), config_file), config_file);
  const WeightFiles weights = WeightFiles::open(options.folder);
  check_weights(weights, build_model(config, {1, 1, DType::kF32}));
  const Tokenizer tokenizer = tokenizer_of(options, config);
  if (config.vocabulary < tokenizer.vocabulary())
    throw InvalidInput(str(printable_path(options.folder), ": the model has a vocabulary of ", config.vocabulary,
                           ", the ", tokenizer.is_bytes() ? "byte-level tokenizer" : "tokenizer", " one of ",
                           tokenizer.vocabulary()));
  std::vector<std::int32_t> text = tokenizer.encode(options.prompt);
  if (text.empty() && tokenizer.end_of_text() < 0)
    throw InvalidInput("this tokenizer has no token to start from; give a --prompt", ExitCode::kUsage);
  if (text.empty()) text.push_back(tokenizer.end_of_text());

  if (static_cast<std::int64_t>(text.size()) > config.trained_sequence)
    throw InvalidInput(str("the prompt has ", text.size(), " tokens, more than the ", config.trained_sequence,
                           " that the model was trained on; use a shorter one"),
                       ExitCode::kUsage);
  // The window is computed anew for each token; it grows in steps, so that few programs are built.
  const std::int64_t longest = std::min<std::int64_t>(config.trained_sequence, 1024);
  const KernelTable kernels = builtin_kernels();
  run_threads(1, [&](Communicator& world) {
    std::int64_t made = 0;
    for (std::int64_t window = std::min<std::int64_t>(64, longest); made < options.tokens;
         window = std::min(2 * window, longest)) {
      const Model model = build_model(config, {1, window, DType::kF32}, ModelPurpose::kGenerate);
      const Program program = build_program(model, Plan{});
      require_memory(config_file, plan_memory(program, 0, {}, data_bytes(program, 0), options.threads), 1);
      Executor executor(program, kernels, world,
                        {.threads = options.threads, .optimizer = {.kind = OptimizerKind::kSgd}});
      load_weights(weights, model, [&](const std::string& name) { return executor.parameter_bytes(name); });
      if (made == 0) on_text(options.prompt);
      while (made < options.tokens && (static_cast<std::int64_t>(text.size()) <= window || window == longest)) {
        const auto length = static_cast<std::int64_t>(text.size()), begin = std::max<std::int64_t>(0, length - window);
        const auto ids = executor.data<std::int32_t>("ids", 0), positions = executor.data<std::int32_t>("positions", 0);
        const auto first = executor.data<std::int32_t>("first", 0), last = executor.data<std::int32_t>("last", 0);
        for (std::int64_t s = 0; s < window; ++s) {
          const auto at = static_cast<std::size_t>(s);
          ids[at] = begin + s < length ? text[static_cast<std::size_t>(begin + s)] : 0;  // what follows is not seen
          if (!positions.empty()) positions[at] = static_cast<std::int32_t>(s);
          first[at] = 0;
          last[at] = static_cast<std::int32_t>(s);
        }
        const View logits = executor.forward();
        const std::int64_t row = length - begin - 1;
        const double uniform = RandomStream(options.seed, Purpose::kSampling).uniform(static_cast<std::uint64_t>(made));
        const std::int32_t token =
            draw({logits.as<float>() + row * config.vocabulary, static_cast<std::size_t>(tokenizer.vocabulary())},
                 options.temperature, uniform);
        ++made;
        text.push_back(token);
        if (token == tokenizer.end_of_text()) return;
        on_text(tokenizer.decode(token));
      }
    }
  });
}

}  // namespace sextant
