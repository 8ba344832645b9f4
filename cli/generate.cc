#include <algorithm>
#include <iostream>
#include <thread>

#include "cli/cli.h"
#include "sextant/runtime/train/trainer.h"

namespace sextant::cli {
namespace {

int run_generate(const Arguments& a) {
  GenerateOptions options;
  options.folder = a.file("the folder of a trained model");
  a.at_most_words(1);
  options.tokenizer = a.value("--tokenizer").value_or("");
  options.prompt = a.value("--prompt").value_or("");
  options.tokens = a.integer("--tokens", 200, 1, 1 << 20);
  options.temperature = a.number("--temperature", 0.8, 0, 100);
  options.seed = static_cast<std::uint64_t>(a.integer("--seed", 1, 0, std::int64_t{1} << 62));
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // A model may write anything; what is no UTF-8 and control characters stay off the terminal.
  std::string waiting;
  const auto print = [&](std::string_view text) {
    waiting += text;
    while (!waiting.empty()) {
      const int length = utf8_length(waiting);
      if (length < 0) break;  // a character that is not whole yet
      const std::string character = waiting.substr(0, static_cast<std::size_t>(std::max(1, length)));
      waiting.erase(0, character.size());
      if (length == 0)
        std::cout << "?";
      else if (character == "\n" || character == "\t" || printable(character) == character)
        std::cout << character;
      else
        std::cout << " ";
    }
    std::cout << std::flush;
  };
  sextant::generate(options, print);
  std::cout << "\n";
  return 0;
}

}  // namespace

const Command generate = {"generate",
                          "FOLDER [--prompt TEXT]",
                          "Lets a trained model continue a prompt.",
                          {{"--prompt", "TEXT", "how the text begins"},
                           {"--tokens", "N", "how many tokens to write (200)"},
                           {"--tokenizer", "FILE", "tokenizer.json; else the folder's, or bytes if it has none"},
                           {"--temperature", "X", "0 takes the likeliest token; higher is freer (0.8)"},
                           {"--seed", "N", "of the draws (1)"}},
                          "Example:\n  sextant generate runs/kjv --prompt \"In the beginning\" --tokens 300\n",
                          run_generate};

}  // namespace sextant::cli
