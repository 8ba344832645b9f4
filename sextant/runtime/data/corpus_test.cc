#include "sextant/runtime/data/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sextant/base/atomic_file.h"
#include "sextant/base/errors.h"
#include "sextant/runtime/data/tokens.h"

namespace sextant {
namespace {

class Corpus : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("sextant_corpus_" + std::to_string(::getpid()) +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_ + "/in/sub");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& text) {
    write_file(folder_ + "/" + name, text);
    return folder_ + "/" + name;
  }
  CorpusCounts write(const CorpusOptions& options, int stop_after = -1) {
    int done = 0;
    return write_corpus(plan_corpus(options), options, Tokenizer::bytes(), folder_ + "/out.tokens",
                        [&](const CorpusCounts&) {
                          if (++done == stop_after) throw std::runtime_error("stopped");
                        });
  }
  std::string text() {
    const Tokens tokens = Tokens::open(folder_ + "/out.tokens");
    std::string out;
    for (std::int64_t i = 0; i < tokens.size(); ++i)
      out += tokens[i] == tokens.end_of_text() ? '|' : static_cast<char>(tokens[i]);
    return out;
  }
  std::string folder_;
};

TEST_F(Corpus, TextsLinesAndFoldersInOrder) {
  file("in/b.txt", "second");
  file("in/a.md", "first");
  file("in/sub/c.jsonl", "{\"text\":\"third\",\"n\":1}\n\n{\"text\":\"fourth\"}");
  file("in/picture.png", "no");
  const CorpusOptions options{.inputs = {folder_ + "/in", file("last.txt", "last")}, .threads = 3};
  EXPECT_EQ(plan_corpus(options).skipped, 1);
  const CorpusCounts counts = write(options);
  EXPECT_EQ(counts.documents, 5);
  EXPECT_EQ(text(), "first|second|third|fourth|last|");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out.tokens.parts"));
}

// 40 MB of lines in parts, stopped behind the second, and taken up again: the same file as in one go.
TEST_F(Corpus, StoppedWorkIsTakenUpAgain) {
  std::string lines;
  for (int i = 0; i < 200'000; ++i)
    lines += "{\"text\":\"document number " + std::to_string(i) + " " + std::string(150, 'x') + "\"}\n";
  CorpusOptions options{.inputs = {file("many.jsonl", lines)}, .threads = 1};
  EXPECT_GE(plan_corpus(options).units.size(), 4U);
  EXPECT_THROW(write(options, 2), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out.tokens"));
  options.threads = 2;
  const CorpusCounts again = write(options);
  EXPECT_EQ(again.reused, 2);
  EXPECT_EQ(again.documents, 200'000);
  const std::string resumed = text();
  EXPECT_EQ(write(options).reused, 0);
  EXPECT_EQ(text(), resumed);
  EXPECT_EQ(resumed.substr(0, 18), "document number 0 ");
}

TEST_F(Corpus, WhatIsOffIsNamedByFileAndLine) {
  const auto error = [&](const std::string& text, const std::string& field = "text") {
    try {
      write({.inputs = {file("x.jsonl", text)}, .field = field});
    } catch (const InvalidInput& e) {
      return std::string(e.what()).substr(folder_.size());
    }
    return std::string("none");
  };
  EXPECT_EQ(error("{\"text\":\"a\"}\n{\"txt\":\"b\"}\n"),
            "/x.jsonl:2: has no string \"text\"; name the field of the text with --field");
  EXPECT_NE(error("{\"text\":\"a\"}\n\n{\"text\":").find("/x.jsonl:3: no valid JSON"), std::string::npos);
  EXPECT_EQ(error("{\"body\":\"a\"}", "body"), "none");
  EXPECT_THROW(plan_corpus({.inputs = {folder_ + "/in"}}), InvalidInput);
}

}  // namespace
}  // namespace sextant
