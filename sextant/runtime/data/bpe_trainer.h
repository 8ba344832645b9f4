#pragma once
// Learns a byte-level BPE vocabulary from text.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sextant {

/// Counts the words of a corpus and merges the most frequent pairs (Sennrich et al. 2016, algorithm 1). The result
/// depends on the text alone, not on the order of its documents.
class BpeTrainer {
 public:
  /// Adds the words of valid UTF-8 text, split as GPT-2's tokenizer does, and longer words every 128 bytes.
  void add(std::string_view text);
  /// A tokenizer.json (readable by Hugging Face's library) of `vocabulary` tokens: the 256 bytes, merges as long as
  /// pairs occur at least twice, and "<|endoftext|>" last. Throws InvalidInput if `vocabulary` is below 257.
  std::string train(std::int64_t vocabulary) const;

 private:
  std::unordered_map<std::string, std::int64_t> words_;
};

}  // namespace sextant
