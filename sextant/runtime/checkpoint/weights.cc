#include "sextant/runtime/checkpoint/weights.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "sextant/base/atomic_file.h"
#include "sextant/base/errors.h"
#include "sextant/base/fields.h"
#include "sextant/base/mapped_file.h"

namespace sextant {
namespace {

constexpr const char *kOne = "model.safetensors", *kIndex = "model.safetensors.index.json";
constexpr std::int64_t kMaxIndex = std::int64_t{1} << 26;

std::string dtype_name(DType dtype) { return dtype == DType::kF64 ? "F64" : "F32"; }

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t n : shape) product *= n;
  return product;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t n : shape) sizes.push_back(str(n));
  return "[" + join(sizes, ", ") + "]";
}

[[noreturn]] void corrupt(const std::string& file, const std::string& why) {
  throw InvalidInput(str(printable_path(file), ": ", why), ExitCode::kCorrupt);
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

// A file name that an index may give: in its own folder, and nothing but a name.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && printable(name, 255) == name;
}

// Buffers that are saved with some models and are no parameters.
bool is_buffer(std::string_view name) {
  for (const std::string_view end : {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
                                     ".rotary_emb.inv_freq", ".attention.rotary_emb.inv_freq"})
    if (name.ends_with(end)) return true;
  return name == "attn.bias" || name == "attn.masked_bias";
}

float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

float from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0F : 1.0F;
  if (exponent == 31) return mantissa ? std::nanf("") : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                               : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25));
}

// Element i of a tensor's data, which may lie at any byte.
template <class T>
T element(const std::byte* data, std::int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// A parameter is [out, in] (a vector: [out]). Calls f(element of the parameter, element of its file tensor), row by
// row.
template <class F>
void each_place(const Parameter& p, const F& f) {
  const FileTensor& file = p.file;
  const std::int64_t whole = elements(file.shape);
  const std::int64_t rows = file.shape.size() == 1 ? whole : file.transposed ? file.shape[1] : file.shape[0];
  const std::int64_t in = rows == 0 ? 0 : whole / rows, out = in == 0 ? 0 : p.spec.elements() / in;
  for (std::int64_t r = 0; r < out; ++r) {
    const std::int64_t row = file.row(r);
    for (std::int64_t c = 0; c < in; ++c) f(r * in + c, file.transposed ? c * rows + row : row * in + c);
  }
}

bool is_readable(std::string_view dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "BF16" || dtype == "F16";
}

// Which tensor of the files each parameter is read from, and whether the files fit the model.
class Matching {
 public:
  Matching(const WeightFiles& files, const Model& model) : files_(files), model_(model) {
    for (const FileTensor& wanted : file_tensors(model)) {
      check(!wanted.name.empty(), "a model that has files has names for its tensors");
      const WeightFiles::Found found = find(wanted.name);
      if (!found.tensor)
        corrupt(files.files().size() == 1 ? files.files()[0].name() : files.path(),
                str("has no tensor ", wanted.name, ", which this model needs", hint(wanted.name)));
      const auto fail = [&](const std::string& why) {
        corrupt(found.file->name(), str("tensor ", printable(found.tensor->name, 80), " ", why));
      };
      if (found.tensor->shape != wanted.shape)
        fail(str("is ", shape_text(found.tensor->shape), ", this model needs ", shape_text(wanted.shape)));
      if (!is_readable(found.tensor->dtype)) fail(str("is ", found.tensor->dtype, ", readable: F32, F64, BF16, F16"));
      used_.insert(found.tensor);
      by_name_[wanted.name] = found;
    }
    check_tied_head();
    for (const Safetensors& file : files.files())
      for (const StoredTensor& t : file.tensors())
        if (!used_.contains(&t) && !is_buffer(t.name))
          corrupt(file.name(), str("has a tensor ", printable(t.name, 80), " that this model does not know"));
  }
  const WeightFiles::Found& of(const Parameter& p) const { return by_name_.at(p.file.name); }

 private:
  // Under its name, without the family's first word, or, of a tied embedding, under the name of the head.
  WeightFiles::Found find(const std::string& name) const {
    for (const std::string& other : {name, without_prefix(name)})
      if (const auto found = files_.find(other); found.tensor) return found;
    if (!model_.tied_head_name.empty() && name == model_.layers.front().parameters.front().file.name)
      return files_.find(model_.tied_head_name);
    return {};
  }
  static std::string without_prefix(const std::string& name) {
    const std::size_t dot = name.find('.');
    return dot == std::string::npos ? name : name.substr(dot + 1);
  }
  std::string hint(const std::string& name) const {
    std::vector<std::string> names;
    for (const Safetensors& file : files_.files())
      for (const StoredTensor& t : file.tensors())
        if (names.size() < 1000) names.push_back(t.name);
    const std::string near = nearest(name, names);
    return near.empty() ? "" : str(" (it has ", printable(near, 80), ")");
  }
  void check_tied_head() {
    const auto head = model_.tied_head_name.empty() ? WeightFiles::Found{} : files_.find(model_.tied_head_name);
    if (!head.tensor || used_.contains(head.tensor)) return;
    const WeightFiles::Found& embedding = by_name_.at(model_.layers.front().parameters.front().file.name);
    used_.insert(head.tensor);
    const auto same = [&] {
      return head.tensor->dtype == embedding.tensor->dtype && head.tensor->shape == embedding.tensor->shape &&
             std::equal(head.tensor->data.begin(), head.tensor->data.end(), embedding.tensor->data.begin(),
                        embedding.tensor->data.end());
    };
    if (!same())
      corrupt(head.file->name(),
              str("tensor ", head.tensor->name, " differs from ", embedding.tensor->name,
                  ", which it is tied to; set tie_word_embeddings to false in config.json if they are two"));
  }
  const WeightFiles& files_;
  const Model& model_;
  std::map<std::string, WeightFiles::Found> by_name_;
  std::set<const StoredTensor*> used_;
};

}  // namespace

WeightIndex read_index(std::string_view text, const std::string& path) {
  const Value json = parse_json(text, path, ExitCode::kCorrupt);
  WeightIndex out;
  try {
    Fields f(&json, path, "");
    f.known("metadata");
    if (f.has("metadata")) {
      Fields m(f.member("metadata"), path, "metadata");
      if (m.has("total_size")) out.total_size = static_cast<std::int64_t>(m.number("total_size", 0, 0x1p62));
    }
    f.known("weight_map");
    const Value* map = json.find("weight_map");
    const auto* entries = map ? std::get_if<Value::Object>(&map->data) : nullptr;
    if (!entries || entries->empty()) f.fail("weight_map", "expected an object that gives each tensor its file");
    f.finish();
    for (const Member& m : *entries) {
      const auto* file = std::get_if<std::string>(&m.value.data);
      if (!file) f.fail("weight_map", str("tensor ", printable(m.key, 80), ": its file is no string"));
      if (!is_plain_name(*file))
        f.fail("weight_map",
               str("tensor ", printable(m.key, 80), ": its file \"", printable(*file, 80), "\" is no plain file name"));
      out.files[*file].insert(m.key);
    }
    return out;
  } catch (const InvalidInput& e) {
    throw InvalidInput(e.what(), ExitCode::kCorrupt);
  }
}

WeightFiles WeightFiles::open(const std::string& path) {
  WeightFiles out;
  out.path_ = path;
  struct stat info {};
  const bool is_folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  std::string index = path.ends_with(".json") ? path : "";
  if (is_folder) {
    const std::string one = path + "/" + kOne, several = path + "/" + kIndex;
    const bool has_index = exists(several);
    if (!has_index && !exists(one)) {
      std::string more;
      if (exists(path + "/pytorch_model.bin"))
        more = "; it has a pytorch_model.bin, which is not read: save it again as safetensors (save_pretrained)";
      throw InvalidInput(str(printable_path(path), ": has neither ", kOne, " nor ", kIndex, more), ExitCode::kStorage);
    }
    if (!has_index) {
      out.files_.push_back(Safetensors::open(one));
      return out;
    }
    index = several;
  }
  if (index.empty()) {
    out.files_.push_back(Safetensors::open(path));
    return out;
  }
  std::int64_t total = 0;
  const auto [shards, promised] = read_index(read_file(index, kMaxIndex), index);
  const std::string folder = std::filesystem::path(index).parent_path();
  if (is_folder && !shards.contains(kOne) && exists(path + "/" + kOne))
    corrupt(path, str("has both ", kOne, " and ", kIndex, ", which names other files; remove one of them"));
  for (const auto& [name, expected] : shards) {
    try {
      out.files_.push_back(Safetensors::open(folder.empty() ? name : folder + "/" + name));
    } catch (const InvalidInput& e) {
      throw InvalidInput(str(e.what(), " (named by ", kIndex, ")"), e.exit_code);
    }
    const Safetensors& file = out.files_.back();
    for (const std::string& tensor : expected)
      if (!file.find(tensor))
        corrupt(index, str("weight_map: tensor ", printable(tensor, 80), " is said to be in ", name,
                           ", which has none of that name"));
    for (const StoredTensor& t : file.tensors()) {
      if (!expected.contains(t.name))
        corrupt(file.name(), str("has a tensor ", printable(t.name, 80), " that ", kIndex, " does not place there"));
      total += static_cast<std::int64_t>(t.data.size());
    }
  }
  if (promised >= 0 && promised != total)
    corrupt(index, str("metadata: total_size is ", promised, ", the tensors have ", total, " bytes"));
  return out;
}

WeightFiles::Found WeightFiles::find(const std::string& name) const {
  for (const Safetensors& file : files_)
    if (const StoredTensor* tensor = file.find(name)) return {tensor, &file};
  return {};
}

void WeightFiles::require_unchanged() const {
  for (const Safetensors& file : files_) file.require_unchanged();
}

void check_weights(const WeightFiles& files, const Model& model) { const Matching matching(files, model); }

void load_weights(const WeightFiles& files, const Model& model, const ParameterBytes& parameters) {
  const Matching matching(files, model);
  for (const Parameter* p : model.parameters()) {
    const WeightFiles::Found& found = matching.of(*p);
    const std::byte* from = found.tensor->data.data();
    bool finite = true;
    const auto read = [&](auto* to, const auto& get) {
      using To = std::remove_pointer_t<decltype(to)>;
      each_place(*p, [&](std::int64_t i, std::int64_t place) {
        to[i] = static_cast<To>(get(place));
        finite = finite && std::isfinite(to[i]);  // as it will be used: a float64 may be beyond float32
      });
    };
    const auto read_as = [&](auto* to) {
      const std::string& dtype = found.tensor->dtype;
      if (dtype == "F32") read(to, [=](std::int64_t i) { return element<float>(from, i); });
      if (dtype == "F64") read(to, [=](std::int64_t i) { return element<double>(from, i); });
      if (dtype == "BF16") read(to, [=](std::int64_t i) { return from_bf16(element<std::uint16_t>(from, i)); });
      if (dtype == "F16") read(to, [=](std::int64_t i) { return from_f16(element<std::uint16_t>(from, i)); });
    };
    std::byte* to = parameters(p->spec.name).data();
    if (p->spec.dtype == DType::kF64)
      read_as(reinterpret_cast<double*>(to));
    else
      read_as(reinterpret_cast<float*>(to));
    if (!finite)
      corrupt(found.file->name(), str("tensor ", printable(found.tensor->name, 80), " holds values that are not finite",
                                      found.tensor->dtype == "F64" ? " in the run's precision" : ""));
  }
  files.require_unchanged();
}

std::vector<std::string> weight_file_names() { return {kOne, kIndex}; }

void save_weights(const std::string& folder, const Model& model, const ParameterBytes& parameters, Bytes shard) {
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<std::byte>> owned;  // tensors that are not stored as they lie in memory
  std::map<std::string, std::size_t> by_name;
  const auto all = model.parameters();
  owned.reserve(all.size());
  std::int64_t total = 0;
  for (const Parameter* p : all) {
    check(!p->file.name.empty(), "a model that is saved has names for its tensors");
    const auto bytes = parameters(p->spec.name);
    const std::int64_t unit = size_of(p->spec.dtype), count = p->spec.elements();
    check(static_cast<std::int64_t>(bytes.size()) == count * unit, "a parameter is whole on the rank that saves it");
    total += count * unit;
    if (!p->file.transposed && p->file.block == 0) {
      tensors.push_back({p->file.name, dtype_name(p->spec.dtype), p->file.shape, bytes});
      continue;
    }
    auto [found, is_new] = by_name.try_emplace(p->file.name, owned.size());
    if (is_new) {
      owned.emplace_back(static_cast<std::size_t>(elements(p->file.shape) * unit));
      tensors.push_back({p->file.name, dtype_name(p->spec.dtype), p->file.shape, owned.back()});
    }
    std::byte* to = owned[found->second].data();
    each_place(*p, [&](std::int64_t i, std::int64_t place) {
      std::memcpy(to + place * unit, bytes.data() + i * unit, static_cast<std::size_t>(unit));
    });
  }
  // All files are written whole under other names first. Then what was there goes, its index before all, and the new
  // ones get their names, their index last: a save that is stopped leaves the old weights, or none, but never a
  // mixture.
  std::vector<std::vector<StoredTensor>> parts(1);
  std::int64_t size = 0;
  for (StoredTensor& t : tensors) {
    const auto bytes = static_cast<std::int64_t>(t.data.size());
    if (total > shard.value && !parts.back().empty() && size + bytes > shard.value) parts.emplace_back(), size = 0;
    size += bytes;
    parts.back().push_back(std::move(t));
  }
  Value::Object map;
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::set<std::string> names;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    char name[64] = "model.safetensors";
    if (total > shard.value) std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, parts.size());
    names.insert(name);
    if (std::filesystem::is_symlink(folder + "/" + name)) ::unlink((folder + "/" + name).c_str());  // not its target
    files.push_back(std::make_unique<AtomicFile>(folder + "/" + name));
    write_safetensors(*files.back(), parts[i]);
    for (const StoredTensor& t : parts[i]) map.push_back({t.name, Value(name)});
  }
  ::unlink((folder + "/" + kIndex).c_str());
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    int part = 0, of = 0, end = 0;
    if (!names.contains(name) &&
        (name == kOne || (std::sscanf(name.c_str(), "model-%5d-of-%5d.safetensors%n", &part, &of, &end) == 2 &&
                          end == static_cast<int>(name.size()))))
      ::unlink(entry.path().c_str());
  }
  for (const auto& file : files) file->commit();
  if (total <= shard.value) return;
  Value index;
  index.set("metadata", Value(Value::Object{{"total_size", Value(total)}}));
  index.set("weight_map", Value(std::move(map)));
  write_file(folder + "/" + kIndex, to_json(index, true) + "\n");
}

}  // namespace sextant
