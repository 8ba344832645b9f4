#include <algorithm>
#include <iostream>

#include "cli/cli.h"
#include "sextant/base/atomic_file.h"
#include "sextant/runtime/data/tokens.h"

namespace sextant::cli {
namespace {

int run_data(const Arguments& a) {
  a.file("a text file");
  const auto out = a.value("--out");
  if (!out || out->empty()) throw InvalidInput("sextant data: --out FILE is missing", ExitCode::kUsage);
  for (const std::string& path : a.words())
    if (same_file(path, *out))
      throw InvalidInput(str("sextant data: ", printable(path), " is both an input and --out; use another --out"),
                         ExitCode::kUsage);
  std::vector<std::string> files = a.words();
  files.push_back(*out);
  require_json(a, files);
  TokenWriter writer(*out, kByteVocabulary);
  for (const std::string& path : a.words()) {
    const MappedFile file(path);
    if (file.bytes().empty())
      throw InvalidInput(str(printable(path), ": is empty; give a file with text"), ExitCode::kCorrupt);
    require_text(file.bytes(), path);
    writer.document({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  }
  const std::int64_t tokens = writer.finish();
  std::cerr << with_commas(tokens) << " tokens of " << a.words().size()
            << (a.words().size() == 1 ? " document" : " documents") << " in " << printable(*out) << "\n";
  Value v;
  v.set("tokens", tokens);
  v.set("documents", static_cast<std::int64_t>(a.words().size()));
  v.set("vocabulary", kByteVocabulary);
  write_json(a, v);
  return 0;
}

}  // namespace

const Command data = {
    "data",
    "TEXT... --out FILE",
    "Turns text files into a token file for training (byte-level tokenizer).",
    {{"--out", "FILE", "the token file; each text becomes one document"}, {"--json", "[=FILE]", "counts as JSON"}},
    "Example:\n  sextant data genesis.txt exodus.txt --out bible.tokens\n",
    run_data};

}  // namespace sextant::cli
