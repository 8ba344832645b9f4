#pragma once
// Texts of any number as one token file: in parallel, and resumed where an earlier run was stopped.
#include <functional>
#include <string>
#include <vector>

#include "sextant/base/units.h"
#include "sextant/runtime/data/tokenizer.h"

namespace sextant {

struct CorpusOptions {
  std::vector<std::string> inputs;  ///< text files, .jsonl files, and folders with such
  std::string field = "text";       ///< of a line of a .jsonl file, which is one document
  int threads = 1;
};
/// A piece of work: some small files, or a part of a large .jsonl file.
struct CorpusUnit {
  struct Part {
    std::string path;
    std::int64_t begin = 0, end = 0;  ///< bytes; whole lines of a .jsonl file
  };
  std::vector<Part> parts;
};
struct CorpusPlan {
  std::vector<CorpusUnit> units;
  std::int64_t files = 0, skipped = 0;  ///< skipped: in folders, neither .txt, .md nor .jsonl
  Bytes bytes;
};
/// Finds all files, sorted within a folder. Throws InvalidInput if there is nothing to read.
CorpusPlan plan_corpus(const CorpusOptions& options);

/// Calls `document` for each document of a unit, in order. Throws InvalidInput with file and line.
void each_document(const CorpusUnit& unit, const CorpusOptions& options,
                   const std::function<void(std::string_view text)>& document);

struct CorpusCounts {
  std::int64_t tokens = 0, documents = 0, units = 0, reused = 0;  ///< reused: done by an earlier run
};
/// Writes the documents, each with the tokenizer's end-of-text token behind it, as a token file. Finished units lie in
/// the folder `out`.parts until the file is complete; a later call with the same inputs takes them from there.
/// `progress` is called after each unit, from one thread at a time. Throws InvalidInput.
CorpusCounts write_corpus(const CorpusPlan& plan, const CorpusOptions& options, const Tokenizer& tokenizer,
                          const std::string& out, const std::function<void(const CorpusCounts&)>& progress);

}  // namespace sextant
