#include "sextant/runtime/data/tokens.h"

#include <cstring>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

struct Header {
  char magic[8];
  std::uint32_t version, width;
  std::uint64_t vocabulary, count, tokenizer;
  std::int64_t end_of_text;
};
constexpr char kMagic[] = "SXTOKENS";
static_assert(sizeof(Header) == 48);

}  // namespace

void require_text(std::span<const std::byte> bytes, const std::string& path) {
  const char* kAdvice = "so this is no text; give plain text, or a token file made by 'sextant data'";
  if (const void* nul = bytes.empty() ? nullptr : std::memchr(bytes.data(), 0, bytes.size()))
    throw InvalidInput(
        str(printable(path), ": byte ", static_cast<const std::byte*>(nul) - bytes.data(), " is NUL, ", kAdvice),
        ExitCode::kCorrupt);
  std::int64_t control = 0;
  const auto head = bytes.first(std::min<std::size_t>(bytes.size(), std::size_t{1} << 20));
  for (const std::byte byte : head) {
    const auto b = static_cast<unsigned char>(byte);
    control += b < 0x20 && b != '\n' && b != '\t' && b != '\r' && b != '\f';
  }
  if (control * 10 > static_cast<std::int64_t>(head.size()))
    throw InvalidInput(
        str(printable(path), ": ", control, " of the first ", head.size(), " bytes are control bytes, ", kAdvice),
        ExitCode::kCorrupt);
}

Tokens Tokens::open(const std::string& path) {
  Tokens t;
  t.path_ = path;
  t.file_ = std::make_shared<MappedFile>(path);
  const auto bytes = t.file_->bytes();
  if (bytes.empty()) throw InvalidInput(str(printable(path), ": is empty; give a file with text"), ExitCode::kCorrupt);
  const bool is_token_file = bytes.size() >= 8 && std::memcmp(bytes.data(), kMagic, 8) == 0;
  if (!is_token_file) {
    require_text(bytes, path);
    t.text_ = reinterpret_cast<const unsigned char*>(bytes.data());
    t.count_ = static_cast<std::int64_t>(bytes.size()) + 1;
    return t;
  }
  const auto corrupt = [&](const std::string& why) {
    throw InvalidInput(str(printable(path), ": damaged token file: ", why, "; make it again with 'sextant data'"),
                       ExitCode::kCorrupt);
  };
  if (bytes.size() < sizeof(Header))
    corrupt(str("has ", bytes.size(), " bytes, less than its header of ", sizeof(Header)));
  Header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.version != 2) corrupt(str("version ", h.version, ", known: 2"));
  if (h.width != 2 && h.width != 4) corrupt(str(h.width, " bytes per token, known: 2, 4"));
  if (h.vocabulary == 0 || h.vocabulary > (std::uint64_t{1} << 31)) corrupt(str("vocabulary ", h.vocabulary));
  const std::uint64_t held = (bytes.size() - sizeof(Header)) / h.width,
                      beyond = (bytes.size() - sizeof(Header)) % h.width;
  if (h.count != held || beyond != 0)
    corrupt(str("its header says ", h.count, " tokens, the file holds ", held,
                beyond ? str(" and ", beyond, " bytes more") : ""));
  if (h.end_of_text < 0 || static_cast<std::uint64_t>(h.end_of_text) >= h.vocabulary)
    corrupt(str("its end-of-text token is ", h.end_of_text, ", its vocabulary ", h.vocabulary));
  t.width_ = static_cast<int>(h.width);
  t.end_of_text_ = static_cast<std::int32_t>(h.end_of_text), t.tokenizer_ = h.tokenizer;
  t.count_ = static_cast<std::int64_t>(h.count);
  t.vocabulary_ = static_cast<std::int64_t>(h.vocabulary);
  t.text_ = reinterpret_cast<const unsigned char*>(bytes.data()) + sizeof(Header);
  for (std::int64_t i = 0; i < t.count_; ++i)
    if (t[i] < 0 || t[i] >= t.vocabulary_)
      corrupt(str("token ", i, " is ", t[i], ", its header says a vocabulary of ", t.vocabulary_));
  return t;
}

TokenWriter::TokenWriter(const std::string& path, std::int64_t vocabulary, std::int32_t end_of_text,
                         std::uint64_t tokenizer)
    : file_(path), vocabulary_(vocabulary), end_of_text_(end_of_text), tokenizer_(tokenizer) {
  if (!file_.is_regular())
    throw InvalidInput(
        str(printable(path), ": is no regular file; a token file is completed at its start, so give a file"),
        ExitCode::kStorage);
  const Header place{};
  file_.write(&place, sizeof place);  // completed by finish()
}

void TokenWriter::document(std::span<const std::int32_t> ids) {
  std::vector<std::byte> bytes;
  const auto put = [&](std::int32_t id) {
    const auto* from = reinterpret_cast<const std::byte*>(&id);  // little-endian: the low bytes come first
    bytes.insert(bytes.end(), from, from + width());
  };
  for (const std::int32_t id : ids) put(id);
  put(end_of_text_);
  add_raw(bytes);
}

void TokenWriter::add_raw(std::span<const std::byte> tokens) {
  file_.write(tokens.data(), tokens.size());
  count_ += static_cast<std::int64_t>(tokens.size()) / width();
}

std::int64_t TokenWriter::finish() {
  Header h{{},
           2,
           static_cast<std::uint32_t>(width()),
           static_cast<std::uint64_t>(vocabulary_),
           static_cast<std::uint64_t>(count_),
           tokenizer_,
           end_of_text_};
  std::memcpy(h.magic, kMagic, 8);
  file_.write_at(0, &h, sizeof h);
  file_.commit();
  return count_;
}

}  // namespace sextant
