#include "sextant/runtime/checkpoint/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

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

// Place of element i of a parameter, which is [out, in] (a vector: [out]), within its file tensor.
struct Placement2d {
  const FileTensor& file;
  std::int64_t rows, in;  // of the file tensor
  explicit Placement2d(const Parameter& p) : file(p.file) {
    const std::int64_t whole = elements(file.shape);
    rows = file.shape.size() == 1 ? whole : file.transposed ? file.shape[1] : file.shape[0];
    in = whole / rows;
  }
  std::int64_t operator()(std::int64_t i) const {
    const std::int64_t row = file.row(i / in), column = i % in;
    return file.transposed ? column * rows + row : row * in + column;
  }
};

template <class From, class To>
void move_elements(const Placement2d& place, std::int64_t count, const From* from, To* to, bool into_file) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (into_file)
      to[place(i)] = static_cast<To>(from[i]);
    else
      to[i] = static_cast<To>(from[place(i)]);
  }
}

}  // namespace

void save_weights(const std::string& path, const Model& model, const ParameterBytes& parameters) {
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<std::byte>> owned;  // tensors that are not stored as they lie in memory
  std::map<std::string, std::size_t> by_name;
  const auto all = model.parameters();
  owned.reserve(all.size());
  for (const Parameter* p : all) {
    const auto bytes = parameters(p->spec.name);
    const std::int64_t unit = size_of(p->spec.dtype), count = p->spec.elements();
    check(static_cast<std::int64_t>(bytes.size()) == count * unit, "a parameter is whole on the rank that saves it");
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
    if (p->spec.dtype == DType::kF64)
      move_elements(Placement2d(*p), count, reinterpret_cast<const double*>(bytes.data()),
                    reinterpret_cast<double*>(to), true);
    else
      move_elements(Placement2d(*p), count, reinterpret_cast<const float*>(bytes.data()), reinterpret_cast<float*>(to),
                    true);
  }
  write_safetensors(path, tensors);
}

void load_weights(const Safetensors& file, const Model& model, const ParameterBytes& parameters) {
  const auto fail = [&](const std::string& why) {
    throw InvalidInput(str(printable(file.name()), ": ", why), ExitCode::kCorrupt);
  };
  std::map<std::string, bool> used;
  for (const StoredTensor& t : file.tensors()) used[t.name] = false;
  for (const Parameter* p : model.parameters()) {
    const StoredTensor* t = file.find(p->file.name);
    if (!t) fail(str("has no tensor ", p->file.name, ", which this model needs"));
    used[t->name] = true;
    if (t->shape != p->file.shape)
      fail(str("tensor ", t->name, " is ", shape_text(t->shape), ", this model needs ", shape_text(p->file.shape)));
    if (t->dtype != "F32" && t->dtype != "F64") fail(str("tensor ", t->name, " is ", t->dtype, ", readable: F32, F64"));
    // Tensor data may lie at any byte; it is copied before it is read as numbers.
    std::vector<double> wide(t->dtype == "F64" ? t->data.size() / 8 : 0);
    std::vector<float> narrow(t->dtype == "F32" ? t->data.size() / 4 : 0);
    if (!t->data.empty())
      std::memcpy(wide.empty() ? static_cast<void*>(narrow.data()) : wide.data(), t->data.data(), t->data.size());
    const Placement2d place(*p);
    const std::int64_t count = p->spec.elements();
    std::byte* to = parameters(p->spec.name).data();
    const auto put = [&](auto* target) {
      if (wide.empty())
        move_elements(place, count, narrow.data(), target, false);
      else
        move_elements(place, count, wide.data(), target, false);
      // Checked as it will be used: a float64 may be beyond float32.
      if (!std::all_of(target, target + count, [](auto x) { return std::isfinite(x); }))
        fail(str("tensor ", t->name, " holds values that are not finite",
                 wide.empty() ? "" : " in the run's precision"));
    };
    if (p->spec.dtype == DType::kF64)
      put(reinterpret_cast<double*>(to));
    else
      put(reinterpret_cast<float*>(to));
  }
  for (const auto& [name, is_used] : used)
    if (!is_used) fail(str("has a tensor ", printable(name, 80), " that this model does not know"));
}

}  // namespace sextant
