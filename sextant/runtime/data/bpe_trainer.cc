#include "sextant/runtime/data/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <vector>

#include "sextant/base/errors.h"
#include "sextant/base/value.h"
#include "sextant/runtime/data/bpe.h"
#include "sextant/runtime/data/splitter.h"

namespace sextant {
namespace {

const Splitter& words_of_gpt2() {
  static const Splitter kSplitter(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                                  false, SplitBehavior::kIsolated, false, "BPE training");
  return kSplitter;
}

// A token's bytes in the alphabet of tokenizer.json.
std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += character_of_byte(static_cast<unsigned char>(c));
  return out;
}

}  // namespace

void BpeTrainer::add(std::string_view text) {
  std::vector<std::string_view> words;
  words_of_gpt2().split(text, words);
  std::string key;
  constexpr std::size_t kLongest = 128;  // a run of letters or dashes beyond it teaches nothing, and costs its square
  for (std::string_view word : words)
    while (!word.empty()) {
      key.assign(word.substr(0, kLongest));
      word.remove_prefix(key.size());
      ++words_[key];
    }
}

std::string BpeTrainer::train(std::int64_t vocabulary) const {
  constexpr std::int64_t kLeast = 257;
  if (vocabulary < kLeast)
    throw InvalidInput(str("a byte-level vocabulary has at least ", kLeast, " tokens, found ", vocabulary));
  using Pair = std::pair<std::int32_t, std::int32_t>;
  struct Word {
    std::vector<std::int32_t> ids;
    std::int64_t count;
  };
  // Tokens in the order that Hugging Face's trainer gives them: the alphabet by code point, then merges.
  std::vector<std::string> tokens;
  std::vector<int> bytes(256);
  for (int b = 0; b < 256; ++b) bytes[static_cast<std::size_t>(b)] = b;
  std::sort(bytes.begin(), bytes.end(), [](int a, int b) {
    return character_of_byte(static_cast<unsigned char>(a)) < character_of_byte(static_cast<unsigned char>(b));
  });
  std::vector<std::int32_t> of_byte(256);
  for (const int b : bytes) {
    of_byte[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(tokens.size());
    tokens.emplace_back(1, static_cast<char>(b));
  }
  std::vector<Word> words;
  std::map<std::string_view, std::int64_t> sorted(words_.begin(), words_.end());
  for (const auto& [text, count] : sorted) {
    Word w{{}, count};
    for (const char c : text) w.ids.push_back(of_byte[static_cast<unsigned char>(c)]);
    words.push_back(std::move(w));
  }
  std::map<Pair, std::int64_t> counts;
  std::map<Pair, std::set<std::uint32_t>> where;
  for (std::uint32_t w = 0; w < words.size(); ++w)
    for (std::size_t i = 0; i + 1 < words[w].ids.size(); ++i) {
      const Pair pair{words[w].ids[i], words[w].ids[i + 1]};
      counts[pair] += words[w].count;
      where[pair].insert(w);
    }
  // The most frequent pair first, of equals the one of lowest ids. An entry whose count has changed is looked at again.
  using Entry = std::pair<std::int64_t, Pair>;
  const auto less = [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  std::priority_queue<Entry, std::vector<Entry>, decltype(less)> queue(less);
  for (const auto& [pair, count] : counts) queue.push({count, pair});
  std::vector<Pair> merges;
  std::set<std::string> known(tokens.begin(), tokens.end());
  while (!queue.empty() && static_cast<std::int64_t>(tokens.size()) < vocabulary - 1) {
    const auto [count, pair] = queue.top();
    queue.pop();
    if (count != counts[pair]) {
      if (counts[pair] > 0) queue.push({counts[pair], pair});
      continue;
    }
    if (count < 2) break;
    const std::string merged =
        tokens[static_cast<std::size_t>(pair.first)] + tokens[static_cast<std::size_t>(pair.second)];
    if (!known.insert(merged).second) {  // made of other parts before
      counts[pair] = 0;
      continue;
    }
    const auto id = static_cast<std::int32_t>(tokens.size());
    tokens.push_back(merged);
    merges.push_back(pair);
    std::set<Pair> changed;
    for (const std::uint32_t w : std::set<std::uint32_t>(where[pair])) {
      Word& word = words[w];
      const auto change = [&](std::size_t i, std::int64_t by) {
        if (i + 1 >= word.ids.size()) return;
        const Pair p{word.ids[i], word.ids[i + 1]};
        counts[p] += by;
        if (by > 0) where[p].insert(w), changed.insert(p);
      };
      for (std::size_t i = 0; i < word.ids.size(); ++i) change(i, -word.count);
      std::vector<std::int32_t> next;
      for (std::size_t i = 0; i < word.ids.size(); ++i) {
        const bool joins = i + 1 < word.ids.size() && word.ids[i] == pair.first && word.ids[i + 1] == pair.second;
        next.push_back(joins ? id : word.ids[i]);
        i += joins;
      }
      word.ids = std::move(next);
      for (std::size_t i = 0; i < word.ids.size(); ++i) change(i, word.count);
    }
    where.erase(pair);
    for (const Pair& p : changed) queue.push({counts[p], p});
  }

  Value::Object vocab;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    vocab.push_back({spelled(tokens[id]), Value(static_cast<std::int64_t>(id))});
  const auto end_id = static_cast<std::int64_t>(tokens.size());
  vocab.push_back({"<|endoftext|>", Value(end_id)});
  Value::Array merge_list;
  for (const auto& [left, right] : merges)
    merge_list.emplace_back(Value::Array{Value(spelled(tokens[static_cast<std::size_t>(left)])),
                                         Value(spelled(tokens[static_cast<std::size_t>(right)]))});
  const auto byte_level = [] {
    return Value(Value::Object{{"type", Value("ByteLevel")},
                               {"add_prefix_space", Value(false)},
                               {"trim_offsets", Value(true)},
                               {"use_regex", Value(true)}});
  };
  Value root;
  root.set("version", "1.0");
  root.set("truncation", Value());
  root.set("padding", Value());
  root.set("added_tokens", Value::Array{Value(Value::Object{{"id", Value(end_id)},
                                                            {"content", Value("<|endoftext|>")},
                                                            {"single_word", Value(false)},
                                                            {"lstrip", Value(false)},
                                                            {"rstrip", Value(false)},
                                                            {"normalized", Value(false)},
                                                            {"special", Value(true)}})});
  root.set("normalizer", Value());
  root.set("pre_tokenizer", byte_level());
  root.set("post_processor", Value());
  root.set("decoder", byte_level());
  root.set("model", Value(Value::Object{{"type", Value("BPE")},
                                        {"dropout", Value()},
                                        {"unk_token", Value()},
                                        {"continuing_subword_prefix", Value()},
                                        {"end_of_word_suffix", Value()},
                                        {"fuse_unk", Value(false)},
                                        {"byte_fallback", Value(false)},
                                        {"ignore_merges", Value(false)},
                                        {"vocab", Value(std::move(vocab))},
                                        {"merges", Value(std::move(merge_list))}}));
  return to_json(root) + "\n";
}

}  // namespace sextant
