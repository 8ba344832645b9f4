#include "sextant/runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "sextant/base/atomic_file.h"
#include "sextant/base/errors.h"
#include "sextant/base/value.h"

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

}  // namespace

Safetensors Safetensors::parse(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&](const std::string& why) {
    throw InvalidInput(str(printable(name), ": not a valid safetensors file: ", why), ExitCode::kCorrupt);
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
  const Value root = parse_json(header, name + " (header)", ExitCode::kCorrupt);
  const auto data = bytes.subspan(8 + static_cast<std::size_t>(length));

  Safetensors out;
  out.name_ = name;
  struct Span {
    std::int64_t begin, end;
    std::size_t tensor;
  };
  std::vector<Span> spans;
  const auto& members = std::get<Value::Object>(root.data);
  if (members.size() > kMaxTensors) fail(str(members.size(), " tensors, at most ", kMaxTensors));
  for (const Member& member : members) {
    const std::string shown = printable(member.key, 80);
    if (member.key == "__metadata__") {
      const auto* object = std::get_if<Value::Object>(&member.value.data);
      if (!object) fail("__metadata__ is no object");
      for (const Member& m : *object)
        if (!std::holds_alternative<std::string>(m.value.data))
          fail(str("__metadata__ ", printable(m.key, 80), " is no string"));
      continue;
    }
    const auto* object = std::get_if<Value::Object>(&member.value.data);
    if (!object) fail(str("tensor ", shown, " is no object"));
    for (const Member& m : *object)
      if (m.key != "dtype" && m.key != "shape" && m.key != "data_offsets")
        fail(str("tensor ", shown, ": unknown field ", printable(m.key, 80)));
    StoredTensor tensor{member.key, {}, {}, {}};
    const Value *dtype = member.value.find("dtype"), *shape = member.value.find("shape"),
                *offsets = member.value.find("data_offsets");
    if (!dtype || !std::holds_alternative<std::string>(dtype->data))
      fail(str("tensor ", shown, ": dtype is no string"));
    tensor.dtype = std::get<std::string>(dtype->data);
    const auto* known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                     [&](const DTypeSize& d) { return d.name == tensor.dtype; });
    if (known == std::end(kDTypes)) fail(str("tensor ", shown, ": unknown dtype ", printable(tensor.dtype, 40)));
    std::int64_t size = known->bytes;
    if (!shape || !std::holds_alternative<Value::Array>(shape->data))
      fail(str("tensor ", shown, ": shape is no array"));
    if (std::get<Value::Array>(shape->data).size() > kMaxDims)
      fail(str("tensor ", shown, ": its shape has ", std::get<Value::Array>(shape->data).size(), " dims, at most ",
               kMaxDims));
    for (const Value& v : std::get<Value::Array>(shape->data)) {
      const auto* n = std::get_if<std::int64_t>(&v.data);
      if (!n || *n < 0) fail(str("tensor ", shown, ": shape holds something else than integers >= 0"));
      if (__builtin_mul_overflow(size, *n, &size)) fail(str("tensor ", shown, ": its shape has more than 2^63 bytes"));
      tensor.shape.push_back(*n);
    }
    const auto* pair = offsets ? std::get_if<Value::Array>(&offsets->data) : nullptr;
    if (!pair || pair->size() != 2 || !std::holds_alternative<std::int64_t>((*pair)[0].data) ||
        !std::holds_alternative<std::int64_t>((*pair)[1].data))
      fail(str("tensor ", shown, ": data_offsets are no two integers"));
    const std::int64_t begin = std::get<std::int64_t>((*pair)[0].data), end = std::get<std::int64_t>((*pair)[1].data);
    if (begin < 0 || end < begin) fail(str("tensor ", shown, ": data_offsets run from ", begin, " to ", end));
    if (end - begin != size)
      fail(str("tensor ", shown, ": its shape has ", size, " bytes, its data_offsets ", end - begin));
    if (end > static_cast<std::int64_t>(data.size()))
      fail(str("tensor ", shown, ": ends at byte ", end, " of ", data.size(), "; the file may be cut off"));
    tensor.data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
    spans.push_back({begin, end, out.tensors_.size()});
    out.tensors_.push_back(std::move(tensor));
  }
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
  for (const StoredTensor& t : tensors_)
    if (t.name == name) return &t;
  return nullptr;
}

void write_safetensors(const std::string& path, const std::vector<StoredTensor>& tensors) {
  Value root{Value::Object{}};
  root.set("__metadata__", Value(Value::Object{{"format", Value("pt")}}));
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
    root.set(t.name, std::move(entry));
  }
  std::string header = to_json(root);
  header.append((8 - header.size() % 8) % 8, ' ');  // data starts aligned
  const std::uint64_t length = header.size();

  AtomicFile file(path);
  file.write(&length, 8);
  file.write(header.data(), header.size());
  for (const StoredTensor& t : tensors) file.write(t.data.data(), t.data.size());
  file.commit();
}

}  // namespace sextant
