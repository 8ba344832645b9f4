#include "sextant/base/value.h"

namespace sextant {

const Value* Value::find(std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&data))
    for (const Member& member : *object)
      if (member.key == key) return &member.value;
  return nullptr;
}

Value& Value::set(std::string_view key, Value value) {
  if (std::holds_alternative<std::nullptr_t>(data)) data = Object{};
  auto& object = std::get<Object>(data);
  for (Member& member : object)
    if (member.key == key) return member.value = std::move(value);
  object.push_back({std::string(key), std::move(value)});
  return object.back().value;
}

}  // namespace sextant
