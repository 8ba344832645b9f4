#include "sextant/base/fields.h"

#include <algorithm>

#include "sextant/base/errors.h"

namespace sextant {
namespace {

std::string describe(const Value& value) {
  struct Visitor {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const {
      const std::string text = str(d);
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;  // tells 2.0 from 2
    }
    std::string operator()(const std::string& s) const { return str("\"", printable(s, 60), "\""); }
    std::string operator()(const Value::Array& a) const { return str("an array of ", a.size()); }
    std::string operator()(const Value::Object&) const { return "an object"; }
  };
  return std::visit(Visitor{}, value.data);
}

std::string range(auto least, auto most, const char* what) {
  using T = decltype(least);
  const bool low = least != std::numeric_limits<T>::lowest(), high = most != std::numeric_limits<T>::max();
  if (low && high) return str(what, " from ", least, " to ", most);
  if (low) return str(what, " >= ", least);
  return what;
}

}  // namespace

Fields::Fields(const Value* object, std::string file, std::string section)
    : object_(object), file_(std::move(file)), section_(std::move(section)) {
  if (object_ && !std::holds_alternative<Value::Object>(object_->data))
    throw InvalidInput(str(printable(file_), section_.empty() ? "" : ": " + section_, ": found ", describe(*object_),
                           ", expected an object"));
}

void Fields::fail(std::string_view key, const std::string& what) const {
  std::string place = printable(file_);
  const Value* at = object_ ? object_->find(key) : nullptr;
  if (!at) at = object_;
  if (at && at->line == kFromArgument)
    throw InvalidInput(str("argument ", section_.substr(1, section_.size() - 2), ".", printable(key, 60), ": ", what));
  if (at && at->line > 0) place += str(":", at->line, ":", at->column);
  throw InvalidInput(str(place, ": ", section_.empty() ? "" : section_ + " ", printable(key, 60), ": ", what));
}

void Fields::known(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
}

bool Fields::has(std::string_view key) const {
  const Value* value = object_ ? object_->find(key) : nullptr;
  return value && !std::holds_alternative<std::nullptr_t>(value->data);
}

const Value& Fields::require(std::string_view key, const std::string& expected) {
  known(key);
  if (!has(key)) {
    // The likeliest reason for a missing key is a misspelt one.
    std::vector<std::string> present;
    if (object_)
      for (const Member& m : std::get<Value::Object>(object_->data)) present.push_back(m.key);
    if (object_ && object_->find(key)) fail(key, str("found null, expected ", expected));
    const std::string near = nearest(key, present);
    fail(key, str("is missing, expected ", expected, near.empty() ? "" : str(" (found ", printable(near, 60), ")")));
  }
  return *object_->find(key);
}

std::int64_t Fields::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const std::string expected = range(least, most, "an integer");
  const Value& value = require(key, expected);
  const auto* integer = std::get_if<std::int64_t>(&value.data);
  if (!integer || *integer < least || *integer > most)
    fail(key, str("found ", describe(value), ", expected ", expected));
  return *integer;
}

double Fields::number(std::string_view key, double least, double most) {
  const std::string expected = range(least, most, "a number");
  const Value& value = require(key, expected);
  double number = 0;
  if (const auto* i = std::get_if<std::int64_t>(&value.data))
    number = static_cast<double>(*i);
  else if (const auto* d = std::get_if<double>(&value.data))
    number = *d;
  else
    fail(key, str("found ", describe(value), ", expected ", expected));
  if (!(number >= least && number <= most)) fail(key, str("found ", describe(value), ", expected ", expected));
  return number;
}

bool Fields::boolean(std::string_view key) {
  const Value& value = require(key, "true or false");
  if (const auto* b = std::get_if<bool>(&value.data)) return *b;
  fail(key, str("found ", describe(value), ", expected true or false"));
}

std::string Fields::text(std::string_view key) {
  const Value& value = require(key, "a string");
  if (const auto* s = std::get_if<std::string>(&value.data)) return *s;
  fail(key, str("found ", describe(value), ", expected a string"));
}

std::string Fields::one_of(std::string_view key, const std::vector<std::string>& choices) {
  const std::string expected = "one of " + join(choices, ", ");
  const Value& value = require(key, expected);
  const auto* s = std::get_if<std::string>(&value.data);
  if (s && std::find(choices.begin(), choices.end(), *s) != choices.end()) return *s;
  fail(key, str("found ", describe(value), ", expected ", expected));
}

std::vector<std::string> Fields::texts(std::string_view key) {
  const auto* array = std::get_if<Value::Array>(&require(key, "an array of strings").data);
  std::vector<std::string> out;
  for (const Value& v : array ? *array : Value::Array{Value()}) {
    const auto* text = std::get_if<std::string>(&v.data);
    if (!text)
      fail(key, str("found ", array ? describe(v) : describe(*object_->find(key)), ", expected an array of strings"));
    out.push_back(*text);
  }
  return out;
}

std::vector<std::int64_t> Fields::integers(std::string_view key, std::int64_t least, std::int64_t most) {
  const std::string expected = str("an array of integers from ", least, " to ", most);
  const auto* array = std::get_if<Value::Array>(&require(key, expected).data);
  std::vector<std::int64_t> out;
  for (const Value& v : array ? *array : Value::Array{Value()}) {
    const auto* number = std::get_if<std::int64_t>(&v.data);
    if (!number || *number < least || *number > most)
      fail(key, str("found ", array ? describe(v) : describe(*object_->find(key)), ", expected ", expected));
    out.push_back(*number);
  }
  return out;
}

std::vector<double> Fields::numbers(std::string_view key, std::size_t count, double least, double most) {
  const Value& value = require(key, str("an array of ", count, " numbers"));
  const auto* array = std::get_if<Value::Array>(&value.data);
  if (!array || array->size() != count)
    fail(key, str("found ", describe(value), ", expected an array of ", count, " numbers"));
  std::vector<double> out;
  for (const Value& item : *array) {
    const auto* i = std::get_if<std::int64_t>(&item.data);
    const auto* d = std::get_if<double>(&item.data);
    const double number = i ? static_cast<double>(*i) : d ? *d : std::numeric_limits<double>::quiet_NaN();
    if (!(number >= least && number <= most))
      fail(key, str("found ", describe(item), " in the array, expected ", range(least, most, "numbers")));
    out.push_back(number);
  }
  return out;
}

void Fields::finish() const {
  if (!object_) return;
  for (const Member& member : std::get<Value::Object>(object_->data)) {
    if (std::find(known_.begin(), known_.end(), member.key) != known_.end()) continue;
    const std::string near = nearest(member.key, known_);
    std::vector<std::string> shown;  // names that files carry for other programs (_source, summary_type) help nobody
    for (const std::string& name : known_)
      if (name[0] != '_' && shown.size() < 24) shown.push_back(name);
    fail(member.key,
         near.empty() ? str("unknown key; known here: ", join(shown, ", "), shown.size() < known_.size() ? ", ..." : "")
                      : str("unknown key; did you mean ", near, "?"));
  }
}

}  // namespace sextant
