#include "sextant/runtime/data/batch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "sextant/base/errors.h"
#include "sextant/runtime/data/tokenizer.h"

namespace sextant {
namespace {

// A folder of this process' own, gone at its end.
std::string folder() {
  static const struct Own {
    Own() : path(testing::TempDir() + "sextant_XXXXXX") { ::mkdtemp(path.data()); }
    ~Own() { std::filesystem::remove_all(path); }
    std::string path;
  } own;
  return own.path + "/";
}

std::string file(const std::string& name, const std::string& content) {
  const std::string path = folder() + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

struct Sample {
  explicit Sample(std::size_t n) : ids(n), labels(n), positions(n), first(n), last(n), tokens(n) {}
  std::vector<std::int32_t> ids, labels, positions, first, last;
  std::vector<std::int64_t> tokens;
  SampleView view() { return {ids, labels, positions, first, last, tokens}; }
};

TEST(WindowSampler, LabelsAreTheNextTokensAndPositionsCount) {
  const WindowSampler sampler(Tokens::open(file("a.txt", "abcdefghij")), 4, 1, Packing::kIgnore);
  EXPECT_EQ(sampler.windows(), 2);
  for (std::int64_t j = 0; j < 2; ++j) {
    Sample s(4);
    sampler(j, s.view());
    const std::int32_t begin = 'a' + static_cast<std::int32_t>(4 * sampler.window(j));
    EXPECT_EQ(s.ids, (std::vector<std::int32_t>{begin, begin + 1, begin + 2, begin + 3}));
    EXPECT_EQ(s.labels, (std::vector<std::int32_t>{begin + 1, begin + 2, begin + 3, begin + 4}));
    EXPECT_EQ(s.first, (std::vector<std::int32_t>{0, 0, 0, 0}));
    EXPECT_EQ(s.last, (std::vector<std::int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(s.tokens[2], 4 * j + 2);
  }
}

TEST(WindowSampler, AnEpochVisitsEachWindowOnceInAnOrderOfItsOwn) {  // D1 of docs/traps.md
  const WindowSampler sampler(Tokens::open(file("b.txt", std::string(1001, 'x'))), 10, 9, Packing::kIgnore);
  ASSERT_EQ(sampler.windows(), 100);
  std::vector<std::int64_t> orders[2];
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::set<std::int64_t> seen;
    for (std::int64_t j = 0; j < 100; ++j) {
      orders[epoch].push_back(sampler.window(100 * epoch + j));
      seen.insert(orders[epoch].back());
    }
    EXPECT_EQ(seen.size(), 100U);
    EXPECT_EQ(*seen.rbegin(), 99);
  }
  EXPECT_NE(orders[0], orders[1]);
  const WindowSampler again(Tokens::open(file("b.txt", std::string(1001, 'x'))), 10, 9, Packing::kIgnore),
      other(Tokens::open(file("b.txt", std::string(1001, 'x'))), 10, 10, Packing::kIgnore);
  EXPECT_EQ(again.window(42), sampler.window(42));
  int moved = 0;
  for (std::int64_t j = 0; j < 100; ++j) moved += other.window(j) != sampler.window(j);
  EXPECT_GT(moved, 80);
}

TEST(WindowSampler, SeparateDocumentsDoNotSeeEachOther) {
  const std::string path = folder() + "docs.tokens";
  TokenWriter writer(path, kByteVocabulary);
  writer.document(Tokenizer::bytes().encode("ab"));
  writer.document(Tokenizer::bytes().encode("cde"));
  writer.document(Tokenizer::bytes().encode("fghijk"));
  EXPECT_EQ(writer.finish(), 14);
  const WindowSampler sampler(Tokens::open(path), 13, 1, Packing::kSeparate);
  Sample s(13);
  sampler(0, s.view());
  const std::int32_t e = kEndOfText, x = kIgnored;
  EXPECT_EQ(s.ids, (std::vector<std::int32_t>{'a', 'b', e, 'c', 'd', 'e', e, 'f', 'g', 'h', 'i', 'j', 'k'}));
  EXPECT_EQ(s.labels, (std::vector<std::int32_t>{'b', e, x, 'd', 'e', e, x, 'g', 'h', 'i', 'j', 'k', e}));
  EXPECT_EQ(s.first, (std::vector<std::int32_t>{0, 0, 0, 3, 3, 3, 3, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(s.positions, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5}));
}

TEST(Tokens, TextEndsWithItsDocument) {
  const Tokens t = Tokens::open(file("c.txt", "hi\xc3\xa9"));
  ASSERT_EQ(t.size(), 5);
  EXPECT_EQ(t[0], 'h');
  EXPECT_EQ(t[2], 0xc3);
  EXPECT_EQ(t[4], kEndOfText);
}

std::string error_of(const std::string& path, std::int64_t sequence = 4) {
  try {
    WindowSampler(Tokens::open(path), sequence, 1, Packing::kIgnore);
  } catch (const InvalidInput& e) {
    std::string text = e.what();
    return text.substr(text.rfind('/') + 1);
  }
  return "none";
}

TEST(Tokens, BadFilesSayWhatIsOff) {
  EXPECT_EQ(error_of(folder() + "missing.txt"), "missing.txt: cannot be read: No such file or directory");
  EXPECT_EQ(error_of(file("empty.txt", "")), "empty.txt: is empty; give a file with text");
  EXPECT_EQ(error_of(file("bin.txt", std::string("ab\0cd", 5))),
            "bin.txt: byte 2 is NUL, so this is no text; give plain text, or a token file made by 'sextant data'");
  EXPECT_EQ(
      error_of(file("short.txt", "abc"), 8),
      "short.txt: has 4 tokens, too few for one sequence of 8 and its next token; use sequence <= 3 or more text");
  EXPECT_EQ(
      error_of(file("cut.tokens", "SXTOKENS\1\0")),
      "cut.tokens: damaged token file: has 9 bytes, less than its header of 48; make it again with 'sextant data'");
  std::string header("SXTOKENS\2\0\0\0\2\0\0\0\1\1\0\0\0\0\0\0\x5\0\0\0\0\0\0\0", 32);
  header += std::string(8, '\0') + std::string("\0\1\0\0\0\0\0\0", 8);  // bytes; token 256 ends a document
  EXPECT_EQ(
      error_of(file("few.tokens", header + "abcd")),
      "few.tokens: damaged token file: its header says 5 tokens, the file holds 2; make it again with 'sextant data'");
}

}  // namespace
}  // namespace sextant
