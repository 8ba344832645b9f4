#include "sextant/runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "sextant/base/atomic_file.h"
#include "sextant/base/errors.h"
#include "sextant/base/json_events.h"

namespace sextant {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // as the reference reader
constexpr std::size_t kMaxTensors = 2'000'000, kMaxDims = 64;

struct DTypeSize {
  std::string_view name;
  std::int64_t bytes;
};
constexpr DTypeSize kDTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
                                 {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                                 {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8}};

// The header as it is read: {name: {dtype, shape, data_offsets}} and __metadata__, a map of strings. Builds the tensors
// directly, so that the memory is a few times the header's.
class HeaderReader final : public JsonEvents {
 public:
  HeaderReader(std::string shown_file, std::span<const std::byte> data)
      : shown_file_(std::move(shown_file)), data_(data) {}
  std::vector<StoredTensor> tensors;

  [[noreturn]] void fail(const std::string& why) const {
    throw InvalidInput(str(shown_file_, ": not a valid safetensors file: ", why), ExitCode::kCorrupt);
  }
  void begin_object() override {
    if (level_ == 1 && in_metadata_) fail("__metadata__ " + wrong_metadata());
    if (level_ == 2) fail(in_metadata_ ? "__metadata__ " + wrong_metadata() : wrong_field());
    if (level_ == 0)
      level_ = 1;
    else if (level_ == kEntry)
      level_ = 2;
    else
      fail("its header is nested where no object belongs");
    if (level_ == 2) fields_ = 0;
  }
  void end_object() override {
    if (level_ == 2) {
      if (!in_metadata_) finish_tensor();
      in_metadata_ = false;
      level_ = 1;
    }
  }
  void begin_array() override {
    if (level_ == 0) fail("its header is no object");
    if (level_ != 2) fail(in_metadata_ ? "__metadata__ is no object" : str("tensor ", shown(), " is no object"));
    if (in_metadata_) fail("__metadata__ " + wrong_metadata());
    if (field_ == Field::kDtype) fail(str("tensor ", shown(), ": dtype is no string"));
    if (in_array_) fail(wrong_field());
    in_array_ = true;
    if (field_ == Field::kOffsets) offsets_ = 0;
  }
  void end_array() override { in_array_ = false; }
  void key(std::string name) override {
    if (level_ == 1) {
      in_metadata_ = name == "__metadata__";
      if (in_metadata_ && std::exchange(has_metadata_, true)) fail("__metadata__ stands twice");
      if (!in_metadata_) {
        if (tensors.size() == kMaxTensors) fail(str("more than ", kMaxTensors, " tensors"));
        tensors.emplace_back().name = std::move(name);
      }
      level_ = kEntry;
      return;
    }
    if (in_metadata_) {
      metadata_key_ = std::move(name);
      return;
    }
    field_ = name == "dtype" ? Field::kDtype : name == "shape" ? Field::kShape : Field::kOffsets;
    if (field_ == Field::kOffsets && name != "data_offsets")
      fail(str("tensor ", shown(), ": unknown field ", printable(name, 80)));
    const int bit = 1 << static_cast<int>(field_);
    if (fields_ & bit) fail(str("tensor ", shown(), ": ", name, " stands twice"));
    fields_ |= bit;
  }
  void leaf(Value value) override {
    if (level_ == 0) fail("its header is no object");
    if (level_ == kEntry) fail(in_metadata_ ? "__metadata__ is no object" : str("tensor ", shown(), " is no object"));
    if (in_metadata_) {
      if (!std::holds_alternative<std::string>(value.data)) fail("__metadata__ " + wrong_metadata());
      return;
    }
    if (field_ == Field::kDtype) {
      auto* text = std::get_if<std::string>(&value.data);
      if (!text) fail(str("tensor ", shown(), ": dtype is no string"));
      tensors.back().dtype = std::move(*text);
      return;
    }
    const auto* n = std::get_if<std::int64_t>(&value.data);
    if (!in_array_ || !n) fail(wrong_field());
    if (field_ == Field::kShape) {
      if (*n < 0) fail(wrong_field());
      auto& shape = tensors.back().shape;
      if (shape.size() == kMaxDims) fail(str("tensor ", shown(), ": its shape has more than ", kMaxDims, " dims"));
      shape.push_back(*n);
      return;
    }
    if (offsets_ == 2) fail(wrong_field());
    (offsets_++ == 0 ? begin_ : end_) = *n;
  }

 private:
  enum class Field : std::uint8_t { kDtype, kShape, kOffsets };
  static constexpr int kEntry = 3;  // behind a name, before its object

  std::string shown() const { return printable(tensors.back().name, 80); }
  std::string wrong_metadata() const { return printable(metadata_key_, 80) + " is no string"; }
  std::string wrong_field() const {
    return field_ == Field::kShape     ? str("tensor ", shown(), ": shape is no array of integers >= 0")
           : field_ == Field::kOffsets ? str("tensor ", shown(), ": data_offsets are no two integers")
                                       : str("tensor ", shown(), ": dtype is no string");
  }
  void finish_tensor() {
    StoredTensor& t = tensors.back();
    if (!(fields_ & 1)) fail(str("tensor ", shown(), ": has no dtype"));
    if (!(fields_ & 2)) fail(str("tensor ", shown(), ": has no shape"));
    if (!(fields_ & 4) || offsets_ != 2) fail(str("tensor ", shown(), ": data_offsets are no two integers"));
    offsets_ = 0;
    const auto* known =
        std::find_if(std::begin(kDTypes), std::end(kDTypes), [&](const DTypeSize& d) { return d.name == t.dtype; });
    if (known == std::end(kDTypes)) fail(str("tensor ", shown(), ": unknown dtype ", printable(t.dtype, 40)));
    std::int64_t size = known->bytes;
    for (const std::int64_t n : t.shape)
      if (__builtin_mul_overflow(size, n, &size)) fail(str("tensor ", shown(), ": its shape has more than 2^63 bytes"));
    if (begin_ < 0 || end_ < begin_) fail(str("tensor ", shown(), ": data_offsets run from ", begin_, " to ", end_));
    if (end_ - begin_ != size)
      fail(str("tensor ", shown(), ": its shape has ", size, " bytes, its data_offsets ", end_ - begin_));
    if (end_ > static_cast<std::int64_t>(data_.size()))
      fail(str("tensor ", shown(), ": ends at byte ", end_, " of ", data_.size(), "; the file may be cut off"));
    t.data = data_.subspan(static_cast<std::size_t>(begin_), static_cast<std::size_t>(size));
  }

  std::string shown_file_;
  std::span<const std::byte> data_;
  std::int64_t begin_ = 0, end_ = 0;
  int level_ = 0, fields_ = 0, offsets_ = 0;
  bool in_metadata_ = false, has_metadata_ = false, in_array_ = false;
  Field field_ = Field::kDtype;
  std::string metadata_key_;
};

}  // namespace

Safetensors Safetensors::parse(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&](const std::string& why) {
    throw InvalidInput(str(printable_path(name), ": not a valid safetensors file: ", why), ExitCode::kCorrupt);
  };
  if (bytes.size() < 8) fail(str("has ", bytes.size(), " bytes, at least 8 are the header's length"));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > kMaxHeader) fail(str("its header would have ", length, " bytes, at most ", kMaxHeader));
  if (length > bytes.size() - 8)
    fail(str("its header would have ", length, " bytes, the file has ", bytes.size() - 8,
             " behind its length; it may be cut off"));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length));
  if (header.empty() || header[0] != '{') fail("its header does not start with {");
  const auto data = bytes.subspan(8 + static_cast<std::size_t>(length));
  HeaderReader reader(printable_path(name), data);
  parse_json_events(header, name + " (header)", ExitCode::kCorrupt, reader);

  Safetensors out;
  out.name_ = name;
  struct Span {
    std::int64_t begin, end;
    std::uint32_t tensor;
  };
  std::vector<Span> spans;
  out.tensors_ = std::move(reader.tensors);
  for (const StoredTensor& t : out.tensors_) {
    const std::int64_t begin = t.data.data() - data.data();
    spans.push_back(
        {begin, begin + static_cast<std::int64_t>(t.data.size()), static_cast<std::uint32_t>(spans.size())});
    out.by_name_.push_back(spans.back().tensor);
  }
  const auto name_of = [&](std::uint32_t i) -> const std::string& { return out.tensors_[i].name; };
  std::sort(out.by_name_.begin(), out.by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return name_of(a) < name_of(b); });
  for (std::size_t i = 1; i < out.by_name_.size(); ++i)
    if (name_of(out.by_name_[i]) == name_of(out.by_name_[i - 1]))
      fail(str("tensor ", printable(name_of(out.by_name_[i]), 80), " stands twice"));
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  std::int64_t covered = 0;
  for (const Span& span : spans) {
    if (span.begin != covered)
      fail(str("tensor ", printable(out.tensors_[span.tensor].name, 80), " begins at byte ", span.begin, ", expected ",
               covered, span.begin < covered ? " (overlap)" : " (hole)"));
    covered = span.end;
  }
  if (covered != static_cast<std::int64_t>(data.size()))
    fail(str(data.size() - static_cast<std::size_t>(covered), " bytes behind the last tensor"));
  return out;
}

Safetensors Safetensors::open(const std::string& path) {
  auto file = std::make_shared<MappedFile>(path);
  Safetensors out = parse(file->bytes(), path);
  out.file_ = std::move(file);
  return out;
}

const StoredTensor* Safetensors::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](std::uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

void write_safetensors(AtomicFile& file, const std::vector<StoredTensor>& tensors) {
  Value::Object members{{"__metadata__", Value(Value::Object{{"format", Value("pt")}})}};
  std::int64_t offset = 0;
  for (const StoredTensor& t : tensors) {
    Value entry{Value::Object{}};
    entry.set("dtype", t.dtype);
    Value::Array shape;
    for (const std::int64_t n : t.shape) shape.emplace_back(n);
    entry.set("shape", std::move(shape));
    const auto size = static_cast<std::int64_t>(t.data.size());
    entry.set("data_offsets", Value::Array{Value(offset), Value(offset + size)});
    offset += size;
    members.push_back({t.name, std::move(entry)});
  }
  std::string header = to_json(Value(std::move(members)));
  header.append((8 - header.size() % 8) % 8, ' ');  // data starts aligned
  const std::uint64_t length = header.size();

  file.write(&length, 8);
  file.write(header.data(), header.size());
  for (const StoredTensor& t : tensors) file.write(t.data.data(), t.data.size());
}

}  // namespace sextant
