#include "sextant/runtime/train/whole.h"

namespace sextant {

void load_weights(const WeightFiles& files, const Model& model, Executor& executor) {
  // Parameters come one after the other: each is read whole, then its part is kept.
  std::vector<std::byte> whole;
  std::string name;
  const auto keep = [&](auto zero) {
    using T = decltype(zero);
    const T* values = reinterpret_cast<const T*>(whole.data());
    executor.for_each_value<T>(name, [&](std::int64_t i, T& value) { value = values[i]; });
  };
  const auto keep_last = [&] {
    if (!name.empty()) executor.dtype() == DType::kF64 ? keep(0.0) : keep(0.0F);
  };
  std::map<std::string, std::size_t> sizes;
  for (const Parameter* p : model.parameters())
    sizes[p->spec.name] = static_cast<std::size_t>(p->spec.elements() * size_of(p->spec.dtype));
  load_weights(files, model, [&](const std::string& next) {
    keep_last();
    name = next;
    whole.resize(sizes.at(next));
    return std::span(whole);
  });
  keep_last();
}

void save_weights(const std::string& folder, const Model& model, Executor& executor, bool is_first, Bytes shard) {
  std::map<std::string, std::vector<std::byte>> gathered;
  if (!executor.has_whole_parameters())
    for (const Parameter* p : model.parameters()) {
      const auto take = [&](const auto& values) {
        const auto bytes = std::as_bytes(std::span(values));
        if (is_first) gathered[p->spec.name].assign(bytes.begin(), bytes.end());
      };
      if (executor.dtype() == DType::kF64)
        take(executor.gather<double>(*p, false));
      else
        take(executor.gather<float>(*p, false));
    }
  if (!is_first) return;
  save_weights(
      folder, model,
      [&](const std::string& name) {
        const auto found = gathered.find(name);
        return found == gathered.end() ? executor.parameter_bytes(name) : std::span(found->second);
      },
      shard);
}

}  // namespace sextant
