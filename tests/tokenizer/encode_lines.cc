// Encodes each line of a file, a JSON string, and writes its ids as a JSON array: what the oracles do too.
// Usage: encode_lines TOKENIZER.json INPUT.jsonl OUTPUT.jsonl
#include <chrono>
#include <fstream>
#include <iostream>

#include "sextant/base/value.h"
#include "sextant/runtime/data/tokenizer.h"

int main(int argc, char** argv) {
  using namespace sextant;
  if (argc != 4) return std::cerr << "usage: encode_lines TOKENIZER.json INPUT.jsonl OUTPUT.jsonl\n", 2;
  try {
    const Tokenizer tokenizer = Tokenizer::open(argv[1]);
    std::ifstream in(argv[2]);
    std::ofstream out(argv[3]);
    std::int64_t bytes = 0, tokens = 0, lines = 0;
    double seconds = 0;
    for (std::string line; std::getline(in, line); ++lines) {
      const std::string text = std::get<std::string>(parse_json(line, argv[2]).data);
      const auto start = std::chrono::steady_clock::now();
      const std::vector<std::int32_t> ids = tokenizer.encode(text);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      bytes += static_cast<std::int64_t>(text.size()), tokens += static_cast<std::int64_t>(ids.size());
      out << '[';
      for (std::size_t i = 0; i < ids.size(); ++i) out << (i ? "," : "") << ids[i];
      out << "]\n";
    }
    std::cerr << lines << " lines, " << bytes << " bytes, " << tokens << " tokens, "
              << static_cast<double>(bytes) / seconds / 1e6 << " MB/s\n";
  } catch (const std::exception& e) {
    return std::cerr << "error: " << e.what() << "\n", 1;
  }
}
