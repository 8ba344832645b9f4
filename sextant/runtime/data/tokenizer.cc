#include "sextant/runtime/data/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "sextant/base/digest.h"
#include "sextant/base/errors.h"
#include "sextant/base/fields.h"
#include "sextant/base/mapped_file.h"

namespace sextant {
namespace {

constexpr std::int64_t kMaxFile = std::int64_t{1} << 28, kMaxVocabulary = std::int64_t{1} << 24;
// The pattern of GPT-2, which ByteLevel applies unless it is told not to.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A token of the vocabulary as bytes. One with a character outside of the alphabet is its own UTF-8 (added tokens).
std::string bytes_of(std::string_view token) {
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    utf8proc_int32_t c = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(token.data()) + at,
                                         static_cast<utf8proc_ssize_t>(token.size() - at), &c);
    const int byte = length > 0 ? byte_of_character(static_cast<std::uint32_t>(c)) : -1;
    if (byte < 0) return std::string(token);
    out += static_cast<char>(byte);
    at += static_cast<std::size_t>(length);
  }
  return out;
}

bool is_space(std::uint32_t c) {
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// Bytes of white space at the end, or the start, of a text.
std::size_t spaces_before(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0) {
    std::size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    utf8proc_int32_t c = 0;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + begin,
                     static_cast<utf8proc_ssize_t>(at - begin), &c);
    if (!is_space(static_cast<std::uint32_t>(c))) break;
    at = begin;
  }
  return text.size() - at;
}
std::size_t spaces_behind(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t c = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (length <= 0 || !is_space(static_cast<std::uint32_t>(c))) break;
    at += static_cast<std::size_t>(length);
  }
  return at;
}

// utf8proc 2.8 drops U+11A7 behind a Hangul syllable without a final; each part between them is mapped alone.
std::string mapped(std::string_view text, int options) {
  constexpr std::string_view kDropped = "\xe1\x86\xa7";
  std::string out;
  while (true) {
    const std::size_t at = text.find(kDropped);
    const std::string_view part = text.substr(0, at);
    utf8proc_uint8_t* result = nullptr;
    const auto length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(part.data()), static_cast<utf8proc_ssize_t>(part.size()),
                     &result, static_cast<utf8proc_option_t>(options));
    check(length >= 0, "valid UTF-8 has a normal form");
    out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
    std::free(result);  // NOLINT: utf8proc allocates with malloc
    if (at == std::string_view::npos) return out;
    out += kDropped;
    text.remove_prefix(at + kDropped.size());
  }
}

// Reads the parts of a tokenizer.json. What is off is the file's fault; what is only not offered is said by name.
class Reader {
 public:
  Reader(const Value& root, const std::string& file) : root_(root), file_(file) {}

  [[noreturn]] void not_offered(const std::string& part, const std::string& what, const std::string& known) const {
    throw InvalidInput(
        str(printable_path(file_), ": ", part, ": ", printable(what, 60), " is not offered; known: ", known));
  }

  std::vector<int> normalizer(const Value* v) const {
    std::vector<int> out;
    if (!v || std::holds_alternative<std::nullptr_t>(v->data)) return out;
    Fields f(v, file_, "normalizer");
    const std::string type = f.text("type");
    constexpr int kStable = UTF8PROC_STABLE;
    if (type == "NFC") return {kStable | UTF8PROC_COMPOSE};
    if (type == "NFD") return {kStable | UTF8PROC_DECOMPOSE};
    if (type == "NFKC") return {kStable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT};
    if (type == "NFKD") return {kStable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    if (type != "Sequence") not_offered("normalizer", type, "NFC, NFD, NFKC, NFKD, Sequence");
    for (const Value& part : array(f, "normalizers"))
      for (const int form : normalizer(&part)) out.push_back(form);
    return out;
  }

  void pre_tokenizer(const Value* v, std::vector<PreTokenizer>& out) const {
    if (!v || std::holds_alternative<std::nullptr_t>(v->data)) return;
    Fields f(v, file_, "pre_tokenizer");
    const std::string type = f.text("type");
    if (type == "Sequence") {
      for (const Value& part : array(f, "pretokenizers")) pre_tokenizer(&part, out);
      return;
    }
    if (type == "ByteLevel") {
      PreTokenizer p{PreTokenizer::Kind::kByteLevel, {}, f.boolean_or("add_prefix_space", true)};
      if (f.boolean_or("use_regex", true))
        p.splitter.emplace(kGpt2Pattern, false, SplitBehavior::kIsolated, false, file_);
      out.push_back(std::move(p));
    } else if (type == "Digits") {
      const bool each = f.boolean_or("individual_digits", false);
      out.push_back(
          {PreTokenizer::Kind::kSplit,
           Splitter("\\p{N}", false, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false, file_),
           false});
    } else if (type == "Split") {
      Fields p(f.member("pattern"), file_, "pre_tokenizer pattern");
      const bool literal = p.has("String");
      const std::string pattern = p.text(literal ? "String" : "Regex");
      const std::string name =
          f.one_of("behavior", {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"});
      const SplitBehavior behavior = name == "Isolated"             ? SplitBehavior::kIsolated
                                     : name == "Removed"            ? SplitBehavior::kRemoved
                                     : name == "Contiguous"         ? SplitBehavior::kContiguous
                                     : name == "MergedWithPrevious" ? SplitBehavior::kMergedWithPrevious
                                                                    : SplitBehavior::kMergedWithNext;
      out.push_back({PreTokenizer::Kind::kSplit,
                     Splitter(pattern, literal, behavior, f.boolean_or("invert", false), file_), false});
    } else {
      not_offered("pre_tokenizer", type, "ByteLevel, Split, Digits, Sequence");
    }
  }

  std::shared_ptr<const Bpe> model(std::vector<std::string>& spelled) const {
    Fields f(root_.find("model"), file_, "model");
    if (const std::string type = f.text_or("type", "BPE"); type != "BPE") not_offered("model", type, "BPE");
    if (f.boolean_or("byte_fallback", false)) not_offered("model", "byte_fallback", "byte-level BPE");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (f.has(key) && !f.text(key).empty()) not_offered("model", key, "byte-level BPE");
    if (f.has("dropout") && f.number("dropout", 0, 1) != 0) not_offered("model", "dropout", "byte-level BPE");
    const bool whole = f.boolean_or("ignore_merges", false);

    const Value* vocab = f.member("vocab");
    const auto* entries = vocab ? std::get_if<Value::Object>(&vocab->data) : nullptr;
    if (!entries || entries->empty()) fail("model: vocab is no object");
    for (const Member& m : *entries) {
      const auto* id = std::get_if<std::int64_t>(&m.value.data);
      if (!id || *id < 0 || *id >= kMaxVocabulary)
        fail(str("model: vocab: token ", printable(m.key, 60), " has no id from 0 to ", kMaxVocabulary - 1));
      if (static_cast<std::size_t>(*id) >= spelled.size()) {
        if (*id > 4 * static_cast<std::int64_t>(entries->size()) + 100'000)
          fail(str("model: vocab: token ", printable(m.key, 60), " has id ", *id, ", the vocabulary ", entries->size(),
                   " tokens"));
        spelled.resize(static_cast<std::size_t>(*id) + 1);
      }
      std::string& slot = spelled[static_cast<std::size_t>(*id)];
      if (!slot.empty())
        fail(str("model: vocab: tokens ", printable(slot, 60), " and ", printable(m.key, 60), " have one id, ", *id));
      slot = m.key;
    }
    std::unordered_map<std::string_view, std::int32_t> ids;
    std::vector<std::string> tokens;
    for (std::size_t id = 0; id < spelled.size(); ++id) {
      ids.emplace(spelled[id], static_cast<std::int32_t>(id));
      tokens.push_back(bytes_of(spelled[id]));
    }
    std::vector<Bpe::Merge> merges;
    for (const Value& v : array(f, "merges")) {
      std::string_view left, right;
      if (const auto* text = std::get_if<std::string>(&v.data)) {
        if (text->rfind("#version", 0) == 0) continue;
        const std::size_t space = text->find(' ');
        if (space == std::string::npos || text->find(' ', space + 1) != std::string::npos)
          fail(str("model: merge ", merges.size(), ", ", printable(*text, 60), ", is no two tokens"));
        left = std::string_view(*text).substr(0, space), right = std::string_view(*text).substr(space + 1);
      } else if (const auto* pair = std::get_if<Value::Array>(&v.data);
                 pair && pair->size() == 2 && std::holds_alternative<std::string>((*pair)[0].data) &&
                 std::holds_alternative<std::string>((*pair)[1].data)) {
        left = std::get<std::string>((*pair)[0].data), right = std::get<std::string>((*pair)[1].data);
      } else {
        fail(str("model: merge ", merges.size(), " is no two tokens"));
      }
      for (const std::string_view part : {left, right})
        if (!ids.contains(part) || part.empty())
          fail(str("model: merge ", merges.size(), ": the vocabulary lacks its part ", printable(part, 60)));
      merges.push_back({ids.at(left), ids.at(right)});
    }
    return std::make_shared<Bpe>(std::move(tokens), merges, whole, file_);
  }

  std::vector<AddedToken> added(std::vector<std::string>& spelled) const {
    std::vector<AddedToken> out;
    const std::size_t model_size = spelled.size();
    const Value* list = root_.find("added_tokens");
    if (!list || std::holds_alternative<std::nullptr_t>(list->data)) return out;
    const auto* entries = std::get_if<Value::Array>(&list->data);
    if (!entries) fail("added_tokens is no array");
    for (const Value& v : *entries) {
      Fields f(&v, file_, "added_tokens");
      AddedToken t;
      t.id = static_cast<std::int32_t>(f.integer("id", 0, kMaxVocabulary - 1));
      t.content = f.text("content");
      if (t.content.empty()) continue;
      t.left_strip = f.boolean_or("lstrip", false), t.right_strip = f.boolean_or("rstrip", false);
      t.normalized = f.boolean_or("normalized", true), t.special = f.boolean_or("special", false);
      if (f.boolean_or("single_word", false))
        not_offered("added_tokens", "single_word", "lstrip, rstrip, normalized, special");
      const auto at = static_cast<std::size_t>(t.id);
      if (at >= spelled.size()) {
        if (at > model_size + 4 * entries->size() + 100'000)
          fail(str("added_tokens: ", printable(t.content, 60), " has id ", t.id));
        spelled.resize(at + 1);
      }
      const auto in_model =
          std::find(spelled.begin(), spelled.begin() + static_cast<std::ptrdiff_t>(model_size), t.content);
      if (in_model != spelled.begin() + static_cast<std::ptrdiff_t>(model_size) && in_model - spelled.begin() != t.id)
        fail(str("added_tokens: ", printable(t.content, 60), " has id ", t.id, ", in the vocabulary ",
                 in_model - spelled.begin()));
      if (spelled[at].empty()) spelled[at] = t.content;
      if (spelled[at] != t.content)
        fail(str("added_tokens: ", printable(t.content, 60), " has id ", t.id, ", which is ",
                 printable(spelled[at], 60)));
      out.push_back(std::move(t));
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw InvalidInput(str(printable_path(file_), ": ", why), ExitCode::kCorrupt);
  }
  const Value::Array& array(Fields& f, const char* key) const {
    const Value* v = f.member(key);
    const auto* found = v ? std::get_if<Value::Array>(&v->data) : nullptr;
    if (!found) fail(str(key, " is no array"));
    return *found;
  }
  const Value& root_;
  const std::string& file_;
};

}  // namespace

Tokenizer Tokenizer::bytes() {
  Tokenizer t;
  t.name_ = "bytes";
  for (int b = 0; b < 256; ++b) t.decoded_.emplace_back(1, static_cast<char>(b));
  t.decoded_.emplace_back();
  t.end_of_text_ = 256;
  return t;
}

Tokenizer Tokenizer::open(const std::string& path) { return parse(read_file(path, kMaxFile), path); }

Tokenizer Tokenizer::parse(std::string_view json, const std::string& file) {
  const Value root = parse_json(json, file, ExitCode::kCorrupt);
  if (!std::holds_alternative<Value::Object>(root.data))
    throw InvalidInput(str(printable_path(file), ": is no object, so no tokenizer.json"), ExitCode::kCorrupt);
  Reader reader(root, file);
  Tokenizer t;
  t.name_ = file;
  t.digest_ = sextant::digest(std::as_bytes(std::span(json)));
  std::vector<std::string> spelled;
  t.bpe_ = reader.model(spelled);
  t.added_ = reader.added(spelled);
  t.normal_forms_ = reader.normalizer(root.find("normalizer"));
  reader.pre_tokenizer(root.find("pre_tokenizer"), t.pre_tokenizers_);
  if (std::none_of(t.pre_tokenizers_.begin(), t.pre_tokenizers_.end(),
                   [](const PreTokenizer& p) { return p.kind == PreTokenizer::Kind::kByteLevel; }))
    reader.not_offered("pre_tokenizer", "a vocabulary that is not of bytes",
                       "byte-level BPE (a ByteLevel pre-tokenizer)");
  for (std::size_t id = 0; id < spelled.size(); ++id)
    t.decoded_.push_back(id < t.bpe_->tokens().size() ? t.bpe_->tokens()[id] : spelled[id]);
  for (AddedToken& a : t.added_) {
    t.decoded_[static_cast<std::size_t>(a.id)] = a.content;
    (a.normalized && !t.normal_forms_.empty() ? t.normalized_ : t.raw_)
        .push_back(static_cast<std::size_t>(&a - t.added_.data()));
    if (a.normalized) a.content = t.normalize(a.content);
  }
  for (const char* end : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|eot_id|>", "<eos>", "<|im_end|>"})
    for (const AddedToken& a : t.added_)
      if (t.end_of_text_ < 0 && a.content == end) t.end_of_text_ = a.id;
  return t;
}

std::string Tokenizer::normalize(std::string_view text) const {
  std::string out(text);
  for (const int options : normal_forms_) out = mapped(out, options);
  return out;
}

const std::string& Tokenizer::decode(std::int32_t id) const {
  static const std::string kNone;
  return id >= 0 && static_cast<std::size_t>(id) < decoded_.size() ? decoded_[static_cast<std::size_t>(id)] : kNone;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  encode(text, out);
  return out;
}

// Calls then(rest) for what lies between the added tokens, whose ids are put out: leftmost first, the longest of those.
template <class Then>
void Tokenizer::split_at_added(std::string_view text, const std::vector<std::size_t>& which,
                               std::vector<std::int32_t>& out, const Then& then) const {
  if (which.empty()) return then(text);
  bool starts[256] = {};
  for (const std::size_t i : which) starts[static_cast<unsigned char>(added_[i].content[0])] = true;
  std::size_t done = 0;  // what earlier tokens took
  for (std::size_t at = 0; at < text.size();) {
    if (!starts[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const AddedToken* best = nullptr;
    for (const std::size_t i : which) {
      const AddedToken& a = added_[i];
      if (text[at] == a.content[0] && text.compare(at, a.content.size(), a.content) == 0 &&
          (!best || a.content.size() > best->content.size()))
        best = &a;
    }
    if (!best) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + best->content.size();
    if (best->left_strip) begin -= spaces_before(text.substr(done, at - done));
    if (best->right_strip) end += spaces_behind(text.substr(end));
    if (begin > done) then(text.substr(done, begin - done));
    out.push_back(best->id);
    at = done = end;
  }
  if (done < text.size()) then(text.substr(done));
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  if (is_bytes()) {
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return;
  }
  if (const std::size_t bad = first_invalid_utf8(text); bad != std::string_view::npos)
    throw InvalidInput(str("byte ", bad, " is no UTF-8; this tokenizer takes UTF-8 text only"), ExitCode::kCorrupt);
  split_at_added(text, raw_, out, [&](std::string_view rest) {
    if (normal_forms_.empty()) return encode_plain(rest, out);
    const std::string normal = normalize(rest);
    split_at_added(normal, normalized_, out, [&](std::string_view plain) { encode_plain(plain, out); });
  });
}

// Each step sees each piece as a text of its own.
void Tokenizer::make_pieces(std::string_view text, std::deque<std::string>& owned,
                            std::vector<std::string_view>& out) const {
  out.assign(1, text);
  std::vector<std::string_view> next;
  owned.clear();
  for (const PreTokenizer& p : pre_tokenizers_) {
    if (p.add_prefix_space) {
      for (std::string_view& piece : out)
        if (piece.empty() || piece[0] != ' ') piece = owned.emplace_back(" " + std::string(piece));
    }
    if (!p.splitter) continue;
    next.clear();
    for (const std::string_view piece : out) p.splitter->split(piece, next);
    out.swap(next);
  }
}

std::vector<std::string> Tokenizer::pieces(std::string_view text) const {
  std::deque<std::string> owned;
  std::vector<std::string> out;
  std::vector<std::string_view> views;
  make_pieces(text, owned, views);
  for (const std::string_view v : views) out.emplace_back(v);
  return out;
}

void Tokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& out) const {
  // Words come again and again; what a thread has encoded lately it need not encode again.
  struct Cache {
    std::uint64_t of = 0;
    std::unordered_map<std::string, std::vector<std::int32_t>> words;
  };
  constexpr std::size_t kMostWords = 1 << 16, kLongestWord = 64;
  thread_local Cache cache;
  thread_local std::deque<std::string> owned;
  thread_local std::vector<std::string_view> words;
  thread_local std::string key;
  if (cache.of != digest_) cache.words.clear(), cache.of = digest_;
  make_pieces(text, owned, words);
  for (const std::string_view word : words) {
    if (word.size() > kLongestWord) {
      bpe_->encode(word, out);
      continue;
    }
    key.assign(word);
    const auto found = cache.words.find(key);
    if (found != cache.words.end()) {
      out.insert(out.end(), found->second.begin(), found->second.end());
      continue;
    }
    const std::size_t before = out.size();
    bpe_->encode(word, out);
    if (cache.words.size() >= kMostWords) cache.words.clear();
    cache.words.emplace(key, std::vector<std::int32_t>(out.begin() + static_cast<std::ptrdiff_t>(before), out.end()));
  }
}

}  // namespace sextant
