#include "sextant/runtime/data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sextant/base/errors.h"
#include "sextant/base/mapped_file.h"
#include "sextant/runtime/data/bpe_trainer.h"

namespace sextant {
namespace {

using Ids = std::vector<std::int32_t>;
using Pieces = std::vector<std::string>;

// A vocabulary of the 256 bytes (id = byte) and what merges make.
Bpe bpe(const std::vector<std::pair<std::string, std::string>>& merges, bool whole = false,
        const std::vector<std::string>& more = {}) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  for (const auto& [a, b] : merges)
    if (std::find(tokens.begin(), tokens.end(), a + b) == tokens.end()) tokens.push_back(a + b);
  tokens.insert(tokens.end(), more.begin(), more.end());
  std::vector<Bpe::Merge> pairs;
  const auto id = [&](const std::string& t) {
    return static_cast<std::int32_t>(std::find(tokens.begin(), tokens.end(), t) - tokens.begin());
  };
  for (const auto& [a, b] : merges) pairs.push_back({id(a), id(b)});
  return Bpe(tokens, pairs, whole, "test");
}

std::string encoded(const Bpe& model, const std::string& text) {
  Ids ids;
  model.encode(text, ids);
  std::string out;
  for (const std::int32_t id : ids) out += (out.empty() ? "" : "|") + model.tokens()[static_cast<std::size_t>(id)];
  return out;
}

TEST(Bpe, MergesTheLeastRankFirstAndTheLeftmostOfEquals) {
  EXPECT_EQ(encoded(bpe({{"a", "a"}}), "aaaaa"), "aa|aa|a");
  EXPECT_EQ(encoded(bpe({{"b", "c"}, {"a", "b"}}), "abc"), "a|bc");
  EXPECT_EQ(encoded(bpe({{"a", "b"}, {"b", "c"}, {"ab", "c"}}), "abcabc"), "abc|abc");
  // Of equal merges the last one counts: (a, b) ranks behind (b, c).
  EXPECT_EQ(encoded(bpe({{"a", "b"}, {"b", "c"}, {"a", "b"}}), "abc"), "a|bc");
  // A piece that is a token is taken whole only where the tokenizer says so.
  EXPECT_EQ(encoded(bpe({{"a", "b"}}, false, {"abc"}), "abc"), "ab|c");
  EXPECT_EQ(encoded(bpe({{"a", "b"}}, true, {"abc"}), "abc"), "abc");
}

TEST(Bpe, LongPiecesGiveWhatShortOnesDo) {
  const Bpe model = bpe({{"a", "b"}, {"b", "a"}, {"ab", "ab"}, {"c", "ab"}, {"abab", "c"}});
  const auto naive = [&](const std::string& text) {  // the definition
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    const std::vector<std::pair<std::string, std::string>> ranks{
        {"a", "b"}, {"b", "a"}, {"ab", "ab"}, {"c", "ab"}, {"abab", "c"}};
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [x, y] : ranks) {
        for (std::size_t i = 0; i + 1 < parts.size() && !moved; ++i)
          if (parts[i] == x && parts[i + 1] == y) {
            parts[i] += parts[i + 1];
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            moved = true;
          }
        if (moved) break;
      }
    }
    std::string out;
    for (const std::string& p : parts) out += (out.empty() ? "" : "|") + p;
    return out;
  };
  std::uint32_t state = 7;
  for (const std::size_t length : {1, 5, 40, 48, 49, 50, 100, 300}) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i)
      text += "abc"[(state = state * 1664525 + 1013904223) >> 16 & 3 ? state >> 20 & 1 : 2];
    EXPECT_EQ(encoded(model, text), naive(text)) << text;
  }
}

Pieces split(const std::string& pattern, SplitBehavior behavior, bool invert, const std::string& text) {
  std::vector<std::string_view> pieces;
  Splitter(pattern, false, behavior, invert, "test").split(text, pieces);
  return {pieces.begin(), pieces.end()};
}

TEST(Splitter, BehavesAsHuggingFaceDoes) {
  const std::string text = "axxbxcx";
  EXPECT_EQ(split("x", SplitBehavior::kIsolated, false, text), (Pieces{"a", "x", "x", "b", "x", "c", "x"}));
  EXPECT_EQ(split("x", SplitBehavior::kRemoved, false, text), (Pieces{"a", "b", "c"}));
  EXPECT_EQ(split("x", SplitBehavior::kContiguous, false, text), (Pieces{"a", "xx", "b", "x", "c", "x"}));
  EXPECT_EQ(split("x", SplitBehavior::kMergedWithPrevious, false, text), (Pieces{"ax", "x", "bx", "cx"}));
  EXPECT_EQ(split("x", SplitBehavior::kMergedWithNext, false, text), (Pieces{"a", "x", "xb", "xc", "x"}));
  EXPECT_EQ(split("x", SplitBehavior::kRemoved, true, text), (Pieces{"x", "x", "x", "x"}));
  EXPECT_EQ(split("(?=[A-Z])", SplitBehavior::kIsolated, false, "aBcDe"), (Pieces{"a", "Bc", "De"}));
  // White space is Unicode's: U+0085 is, U+180E is not, in brackets and out of them.
  EXPECT_EQ(split(R"(\s)", SplitBehavior::kRemoved, false,
                  "a\xc2\x85"
                  "b\xe1\xa0\x8e"
                  "c"),
            (Pieces{"a",
                    "b\xe1\xa0\x8e"
                    "c"}));
  EXPECT_EQ(split(R"([^\sx]+)", SplitBehavior::kRemoved, true, "ax b"), (Pieces{"a", "b"}));
}

TEST(Splitter, RefusesWhatTheEnginesReadDifferently) {
  for (const char* pattern : {"a{,2}", "a{1,3}+", "[a&&b]", "[[a]b]", "\\h", "\\w+", "^a", "a$", "[\\S]", "(", "\\R"})
    EXPECT_THROW(split(pattern, SplitBehavior::kIsolated, false, "a"), InvalidInput) << pattern;
  // A bomb gives up instead of taking for ever.
  EXPECT_THROW(split("(a+)+b|(a|a)*c|(a|aa)+d", SplitBehavior::kIsolated, false, std::string(3000, 'a')), InvalidInput);
}

std::string base() { return read_file(std::string(SEXTANT_SOURCE_DIR) + "/tests/tokenizer/base.json"); }
std::string changed(const std::string& from, const std::string& to) {
  std::string json = base();
  const std::size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return json.replace(at, from.size(), to);
}
std::string error_of(const std::string& json) {
  try {
    Tokenizer::parse(json, "t.json");
  } catch (const InvalidInput& e) {
    return e.what();
  }
  return "none";
}

TEST(Tokenizer, WhatIsEncodedComesBack) {
  const Tokenizer t = Tokenizer::parse(base(), "base.json");
  EXPECT_EQ(t.vocabulary(), 600);
  EXPECT_EQ(t.end_of_text(), 599);
  for (const std::string text :
       {"In the beginning God created", "", " \n\t ", "\xe2\x82\xac\xf0\x9f\x98\x80 \xd7\x90", "a<|endoftext|>b"}) {
    std::string back;
    for (const std::int32_t id : t.encode(text)) back += t.decode(id);
    EXPECT_EQ(back, text);
  }
  EXPECT_EQ(t.encode("<|endoftext|>"), Ids{599});
  EXPECT_LT(t.encode("In the beginning God created").size(), 15U);
  EXPECT_THROW(t.encode("a\xff"), InvalidInput);
  const Tokenizer bytes = Tokenizer::bytes();
  EXPECT_EQ(bytes.encode("a\xff"), (Ids{97, 255}));
  EXPECT_EQ(bytes.decode(255), "\xff");
}

TEST(Tokenizer, HostileFilesSayWhatIsOff) {
  EXPECT_EQ(error_of(base()), "none");
  EXPECT_NE(error_of("[]").find("no tokenizer.json"), std::string::npos);
  EXPECT_NE(error_of("{}").find("vocab is no object"), std::string::npos);
  EXPECT_NE(error_of(changed("\"byte_fallback\":false", "\"byte_fallback\":true")).find("byte_fallback is not offered"),
            std::string::npos);
  EXPECT_NE(error_of(changed("\"type\":\"BPE\"", "\"type\":\"Unigram\"")).find("Unigram is not offered; known: BPE"),
            std::string::npos);
  EXPECT_NE(error_of(changed("\"pre_tokenizer\":{\"type\":\"ByteLevel\"", "\"pre_tokenizer\":{\"type\":\"Metaspace\""))
                .find("Metaspace is not offered"),
            std::string::npos);
  EXPECT_NE(error_of(changed("\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}"))
                .find("Lowercase is not offered"),
            std::string::npos);
  EXPECT_NE(error_of(changed("\"!\":0,", "")).find("lacks byte 33"), std::string::npos);
  EXPECT_NE(error_of(changed("\"!\":0,", "\"!\":1,")).find("have one id, 1"), std::string::npos);
  EXPECT_NE(error_of(changed("\"!\":0,", "\"!\":-1,")).find("has no id from 0"), std::string::npos);
  EXPECT_NE(error_of(changed("\"!\":0,", "\"!\":16777215,")).find("has id 16777215, the vocabulary"),
            std::string::npos);
  EXPECT_NE(
      error_of(changed("\"merges\":[", "\"merges\":[[\"!\",\"!\"],")).find("makes a token that the vocabulary lacks"),
      std::string::npos);
  EXPECT_NE(error_of(changed("\"merges\":[", "\"merges\":[[\"!\",\"no\"],")).find("lacks its part no"),
            std::string::npos);
  EXPECT_NE(error_of(changed("\"merges\":[", "\"merges\":[\"a b c\",")).find("is no two tokens"), std::string::npos);
  EXPECT_NE(error_of(changed("\"id\":599", "\"id\":5")).find("has id 5, in the vocabulary 599"), std::string::npos);
  EXPECT_NE(error_of(changed("\"single_word\":false", "\"single_word\":true")).find("single_word is not offered"),
            std::string::npos);
}

TEST(BpeTrainer, LearnsTheSameWhateverTheOrderOfTheTexts) {
  BpeTrainer a, b;
  a.add("low lower lowest low low"), a.add("newer wider new");
  b.add("newer wider new"), b.add("low lower lowest low low");
  EXPECT_EQ(a.train(270), b.train(270));
  const Tokenizer t = Tokenizer::parse(a.train(262), "t");
  EXPECT_EQ(t.pieces("low lower"), (Pieces{"low", " lower"}));
  EXPECT_EQ(t.encode("low").size(), 1U);
  EXPECT_EQ(t.vocabulary(), 262);
  EXPECT_THROW(a.train(256), InvalidInput);
  EXPECT_EQ(Tokenizer::parse(BpeTrainer().train(300), "t").vocabulary(), 257);  // no text, no merges
}

}  // namespace
}  // namespace sextant
