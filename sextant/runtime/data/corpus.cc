#include "sextant/runtime/data/corpus.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "sextant/base/atomic_file.h"
#include "sextant/base/digest.h"
#include "sextant/base/errors.h"
#include "sextant/base/value.h"
#include "sextant/runtime/data/tokens.h"

namespace sextant {
namespace {

constexpr std::int64_t kUnit = std::int64_t{8} << 20;
constexpr std::size_t kMostText = std::size_t{1} << 30;  // of one line of a .jsonl file

std::string extension(const std::string& path) {
  std::string out = std::filesystem::path(path).extension();
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}
bool is_jsonl(const std::string& path) { return extension(path) == ".jsonl"; }
bool is_known(const std::string& path) {
  const std::string e = extension(path);
  return e == ".jsonl" || e == ".txt" || e == ".md";
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// A number that tells this unit, read with these settings, from any other.
std::string key_of(const CorpusUnit& unit, std::size_t number, const CorpusOptions& options,
                   const Tokenizer& tokenizer) {
  std::string all = str(number, "|", tokenizer.digest(), "|", options.field, "|", tokenizer.vocabulary(), "|2");
  for (const CorpusUnit::Part& p : unit.parts) {
    struct stat info {};
    ::stat(p.path.c_str(), &info);
    all += str("|", p.path, ":", p.begin, "-", p.end, ":", info.st_size, ":", info.st_mtim.tv_sec, ".",
               info.st_mtim.tv_nsec);
  }
  char hex[20];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(digest(std::as_bytes(std::span(all)))));
  return hex;
}

// One run at a time on one folder of parts.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(fd_);
      throw InvalidInput(
          str(printable_path(folder), ": is in use by another sextant data; wait for it, or use another --out"),
          ExitCode::kStorage);
    }
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

struct PartHeader {
  char magic[8];
  std::int64_t tokens, documents;
};
constexpr char kPartMagic[] = "SXPART01";

// A part of an earlier run, if it is whole.
bool read_part(const std::string& path, int width, PartHeader& header) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const MappedFile file(path);
  if (file.bytes().size() < sizeof header) return false;
  std::memcpy(&header, file.bytes().data(), sizeof header);
  return std::memcmp(header.magic, kPartMagic, 8) == 0 && header.tokens >= 0 &&
         file.bytes().size() == sizeof header + static_cast<std::size_t>(header.tokens * width);
}

}  // namespace

CorpusPlan plan_corpus(const CorpusOptions& options) {
  CorpusPlan plan;
  std::vector<std::string> files;
  for (const std::string& input : options.inputs) {
    std::error_code error;
    if (!std::filesystem::is_directory(input, error)) {
      files.push_back(input);
      continue;
    }
    std::vector<std::string> found;
    for (std::filesystem::recursive_directory_iterator at(input, error), end; !error && at != end; at.increment(error))
      if (std::error_code odd; !at->is_directory(odd)) {  // an empty one has nothing to read; a link may lead nowhere
        if (at->is_regular_file(odd) && is_known(at->path()) && at->file_size(odd) > 0)
          found.push_back(at->path());
        else
          ++plan.skipped;
      }
    if (error)
      throw InvalidInput(str(printable_path(input), ": cannot be read: ", error.message()), ExitCode::kStorage);
    if (found.empty())
      throw InvalidInput(str(printable_path(input), ": holds no .txt, .md or .jsonl file"), ExitCode::kCorrupt);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  CorpusUnit small;
  std::int64_t small_size = 0;
  const auto flush = [&] {
    if (!small.parts.empty()) plan.units.push_back(std::move(small));
    small = {}, small_size = 0;
  };
  for (const std::string& path : files) {
    const MappedFile file(path);
    const std::string_view text = text_of(file);
    const auto size = static_cast<std::int64_t>(text.size());
    if (size == 0)
      throw InvalidInput(str(printable_path(path), ": is empty; give a file with text"), ExitCode::kCorrupt);
    ++plan.files;
    plan.bytes += {size};
    if (small_size + size > kUnit) flush();
    if (!is_jsonl(path) || size <= kUnit) {
      small.parts.push_back({path, 0, size});
      small_size += size;
      continue;
    }
    for (std::int64_t begin = 0; begin < size;) {  // whole lines
      const std::size_t newline = text.find('\n', static_cast<std::size_t>(std::min(size, begin + kUnit)));
      const std::int64_t end = newline == std::string_view::npos ? size : static_cast<std::int64_t>(newline) + 1;
      plan.units.push_back({{{path, begin, end}}});
      begin = end;
    }
  }
  flush();
  return plan;
}

void each_document(const CorpusUnit& unit, const CorpusOptions& options,
                   const std::function<void(std::string_view)>& document) {
  for (const CorpusUnit::Part& p : unit.parts) {
    const MappedFile file(p.path);
    const std::string_view all = text_of(file);
    if (static_cast<std::int64_t>(all.size()) < p.end) file.require_unchanged();
    const auto at = [&](const std::exception& e, const std::string& place) {
      const auto* input = dynamic_cast<const InvalidInput*>(&e);
      throw InvalidInput(str(printable_path(p.path), place, ": ", e.what()),
                         input ? input->exit_code : ExitCode::kCorrupt);
    };
    if (!is_jsonl(p.path)) {
      require_text(file.bytes(), p.path);
      try {
        document(all);
      } catch (const InvalidInput& e) {
        at(e, "");
      }
      continue;
    }
    std::string_view rest = all.substr(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin));
    std::int64_t line = -1;  // counted from the start of the file only when it is wanted
    const auto place = [&](std::string_view text) {
      if (line < 0) line = std::count(all.data(), text.data(), '\n') + 1;
      return str(":", line);
    };
    while (!rest.empty()) {
      const std::size_t newline = rest.find('\n');
      std::string_view text = rest.substr(0, newline);
      rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      line = -1;
      const std::string name = p.path;
      Value value;
      try {
        value = parse_json(text, "", ExitCode::kCorrupt, kMostText);
      } catch (const InvalidInput& e) {
        const std::string why = e.what();
        throw InvalidInput(str(printable_path(p.path), place(text), ": ", why.substr(why.find(": ") + 2)),
                           ExitCode::kCorrupt);
      }
      const Value* field = value.find(options.field);
      const auto* content = field ? std::get_if<std::string>(&field->data) : nullptr;
      if (!content)
        throw InvalidInput(str(printable_path(p.path), place(text), ": has no string \"", printable(options.field, 40),
                               "\"; name the field of the text with --field"),
                           ExitCode::kCorrupt);
      try {
        document(*content);
      } catch (const InvalidInput& e) {
        at(e, place(text));
      }
    }
  }
}

CorpusCounts write_corpus(const CorpusPlan& plan, const CorpusOptions& options, const Tokenizer& tokenizer,
                          const std::string& out, const std::function<void(const CorpusCounts&)>& progress) {
  if (tokenizer.end_of_text() < 0)
    throw InvalidInput(str(printable_path(tokenizer.name()),
                           ": has no token that ends a text (<|endoftext|> or its like), which separates documents"));
  if (struct stat info{}; ::stat(out.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw InvalidInput(
        str(printable_path(out), ": is no regular file; a token file is completed at its start, so give a file"),
        ExitCode::kStorage);
  require_writable(out, "--out");
  const int width = TokenWriter::width_of(tokenizer.vocabulary());
  const std::string folder = out + ".parts";
  make_folder(folder, "--out");
  const FolderLock lock_of_run(folder);
  std::vector<std::string> parts(plan.units.size());
  CorpusCounts counts;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::atomic<bool> stop{false};
  const auto work = [&] {
    std::vector<std::int32_t> ids;
    std::string bytes;
    for (std::size_t u = next++; u < plan.units.size() && !stop; u = next++) {
      try {
        const CorpusUnit& unit = plan.units[u];
        const std::string path = folder + "/" + key_of(unit, u, options, tokenizer) + ".part";
        PartHeader header{};
        const bool is_done = read_part(path, width, header);
        if (!is_done) {
          ids.clear();
          header = {{}, 0, 0};
          std::memcpy(header.magic, kPartMagic, 8);
          each_document(unit, options, [&](std::string_view text) {
            tokenizer.encode(text, ids);
            ids.push_back(tokenizer.end_of_text());
            ++header.documents;
          });
          header.tokens = static_cast<std::int64_t>(ids.size());
          bytes.resize(ids.size() * static_cast<std::size_t>(width));
          for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto narrow = static_cast<std::uint16_t>(ids[i]);
            if (width == 2)
              std::memcpy(bytes.data() + 2 * i, &narrow, 2);
            else
              std::memcpy(bytes.data() + 4 * i, &ids[i], 4);
          }
          AtomicFile file(path);
          file.write(&header, sizeof header);
          file.write(bytes.data(), bytes.size());
          file.commit();
        }
        const std::lock_guard lock(mutex);
        parts[u] = path;
        ++counts.units, counts.reused += is_done;
        counts.tokens += header.tokens, counts.documents += header.documents;
        progress(counts);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        stop = true;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < options.threads; ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (error) std::rethrow_exception(error);
  TokenWriter writer(out, tokenizer.vocabulary(), tokenizer.end_of_text(), tokenizer.digest());
  for (const std::string& path : parts) {
    const MappedFile file(path);
    writer.add_raw(file.bytes().subspan(sizeof(PartHeader)));
  }
  writer.finish();
  // All parts go, those of stopped runs with other inputs too, and what those left of a token file.
  const auto remove_where = [](const std::string& in, const auto& is_ours) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(in, ignored))
      if (is_ours(entry.path().filename().string())) ::unlink(entry.path().c_str());
  };
  remove_where(folder, [](const std::string& name) { return name.find(".part") != std::string::npos; });
  ::rmdir(folder.c_str());
  const std::filesystem::path target(out);
  remove_where(target.has_parent_path() ? target.parent_path().string() : ".", [&](const std::string& name) {
    const std::string begin = target.filename().string() + ".tmp";
    return name.size() > begin.size() && name.starts_with(begin) &&
           name.find_first_not_of("0123456789", begin.size()) == std::string::npos;
  });
  return counts;
}

}  // namespace sextant
