#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "cli/cli.h"
#include "sextant/base/atomic_file.h"
#include "sextant/runtime/data/bpe_trainer.h"
#include "sextant/runtime/data/corpus.h"

namespace sextant::cli {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void train_tokenizer(const CorpusPlan& plan, const CorpusOptions& options, const std::string& path,
                     std::int64_t vocabulary) {
  BpeTrainer trainer;
  for (const CorpusUnit& unit : plan.units)
    each_document(unit, options, [&](std::string_view text) {
      if (const std::size_t bad = first_invalid_utf8(text); bad != std::string_view::npos)
        throw InvalidInput(str("byte ", bad, " is no UTF-8; a tokenizer is trained on UTF-8 text"), ExitCode::kCorrupt);
      trainer.add(text);
    });
  const std::string json = trainer.train(vocabulary);
  const std::int64_t made = Tokenizer::parse(json, path).vocabulary();
  write_file(path, json);
  std::cerr << "a tokenizer of " << with_commas(made) << " tokens in " << printable_path(path)
            << (made < vocabulary ? "; the text has no more pairs that occur twice" : "") << "\n";
}

int run_data(const Arguments& a) {
  a.file("a text");
  const auto out = a.value("--out"), made = a.value("--train-tokenizer"), used = a.value("--tokenizer");
  if (!(out && !out->empty()) && !made)
    throw InvalidInput("sextant data: --out FILE is missing (or --train-tokenizer FILE)", ExitCode::kUsage);
  if (made && used)
    throw InvalidInput("sextant data: --tokenizer and --train-tokenizer do not go together", ExitCode::kUsage);
  if (a.has("--vocabulary") && !made)
    throw InvalidInput("sextant data: --vocabulary goes with --train-tokenizer", ExitCode::kUsage);
  CorpusOptions options{.inputs = a.words(), .field = a.value("--field").value_or("text")};
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.threads = static_cast<int>(a.integer("--threads", cores, 1, 1024));
  std::vector<std::string> files = a.words();
  for (const auto& file : {used, made, out})
    if (file) {
      for (const std::string& path : a.words())
        if (same_file(path, *file))
          throw InvalidInput(
              str("sextant data: ", printable_path(path), " is both an input and an output; use another name"),
              ExitCode::kUsage);
      files.push_back(*file);
    }
  if (out && made && same_file(*out, *made))
    throw InvalidInput("sextant data: --out and --train-tokenizer name one file", ExitCode::kUsage);
  require_json(a, files);
  const CorpusPlan plan = plan_corpus(options);
  if (made) train_tokenizer(plan, options, *made, a.integer("--vocabulary", 4096, 257, 1 << 24));
  Value v;
  v.set("files", plan.files);
  v.set("bytes", plan.bytes.value);
  if (out) {
    const Tokenizer tokenizer = made ? Tokenizer::open(*made) : used ? Tokenizer::open(*used) : Tokenizer::bytes();
    const double start = now();
    double shown = start;
    const CorpusCounts counts = write_corpus(plan, options, tokenizer, *out, [&](const CorpusCounts& so_far) {
      if (now() < shown + 2) return;
      shown = now();
      std::cerr << so_far.units << " of " << plan.units.size() << " parts, " << with_commas(so_far.tokens)
                << " tokens\n";
    });
    std::cerr << with_commas(counts.tokens) << " tokens of " << with_commas(counts.documents)
              << (counts.documents == 1 ? " document" : " documents") << " (" << human(plan.bytes) << " in "
              << plan.files << (plan.files == 1 ? " file" : " files") << ") in " << printable_path(*out);
    if (counts.reused > 0) std::cerr << "; " << counts.reused << " of " << counts.units << " parts were there already";
    if (plan.skipped > 0) std::cerr << "; " << plan.skipped << " files were left out, as neither .txt, .md nor .jsonl";
    std::cerr << "\n";
    v.set("tokens", counts.tokens);
    v.set("documents", counts.documents);
    v.set("vocabulary", tokenizer.vocabulary());
    v.set("parts", counts.units);
    v.set("reused_parts", counts.reused);
    v.set("seconds", now() - start);
  }
  write_json(a, v);
  return 0;
}

}  // namespace

const Command data = {
    "data",
    "TEXT... --out FILE",
    "Turns texts into a token file for training.",
    {{"--out", "FILE", "the token file; each text, and each line of a .jsonl file, becomes one document"},
     {"--tokenizer", "FILE", "a Hugging Face tokenizer.json (byte-level BPE); without it, tokens are bytes"},
     {"--train-tokenizer", "FILE", "learns such a tokenizer.json from the texts first"},
     {"--vocabulary", "N", "tokens that it learns, 4096 if left out"},
     {"--field", "NAME", "the field of a .jsonl line that holds the text, \"text\" if left out"},
     {"--threads", "N", "all cores if left out"},
     {"--json", "[=FILE]", "counts as JSON"}},
    "A TEXT is a text file, a .jsonl file, or a folder with .txt, .md and .jsonl files. Work that was stopped is taken "
    "up\n"
    "again by the same command: finished parts wait in FILE.parts.\n"
    "\nExamples:\n"
    "  sextant data genesis.txt exodus.txt --out bible.tokens\n"
    "  sextant data books/ --train-tokenizer books.json --vocabulary 8000 --out books.tokens\n"
    "  sextant data web.jsonl --field content --tokenizer llama3/tokenizer.json --out web.tokens\n",
    run_data};

}  // namespace sextant::cli
