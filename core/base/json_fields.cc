#include "neap/core/base/json_fields.h"

namespace neap {
namespace {

using Json = JsonFields::Json;

absl::Status NotJson(const char* file, std::string_view text, size_t byte) {
  const size_t read = std::min(byte > 0 ? byte - 1 : 0, text.size());
  const std::string_view before = text.substr(0, read);
  const size_t line_begin = before.rfind('\n') + 1;  // 0 in the first line
  return absl::InvalidArgumentError(absl::StrCat(file, ": the text is not JSON (line ",
                                                 std::count(before.begin(), before.end(), '\n') + 1,
                                                 ", column ", read - line_begin + 1, ")"));
}

// The parser's exceptions say where a text is no JSON; its results do not.
absl::StatusOr<Json> Parsed(std::string_view text, const char* file,
                            const Json::parser_callback_t& callback) {
  try {
    return Json::parse(text.begin(), text.end(), callback);
  } catch (const Json::parse_error& error) {
    return NotJson(file, text, error.byte);
  } catch (const Json::out_of_range&) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": a number is too large: numbers are at most 1.8e308"));
  }
}

}  // namespace

const Json& JsonFields::NullOr(const char* key, bool (Json::*is_right)() const noexcept,
                               const Json& null) {
  const Json* value = Find(key);
  if (value != nullptr && (value->is_null() || (value->*is_right)())) return *value;
  Fail(absl::StrCat(key, " is missing or of the wrong type"));
  return null;
}

std::vector<int64_t> JsonFields::Integers(const char* key) {
  std::vector<int64_t> out;
  for (const Json& item : Array(key)) {
    if (!IsInteger(item)) Fail(absl::StrCat(key, " holds something other than integers"));
    out.push_back(IsInteger(item) ? item.get<int64_t>() : 0);
  }
  return out;
}

std::vector<std::pair<TensorId, TensorId>> JsonFields::Pairs(const char* key) {
  std::vector<std::pair<TensorId, TensorId>> out;
  for (const Json& pair : Array(key)) {
    if (!pair.is_array() || pair.size() != 2 || !IsInteger(pair[0]) || !IsInteger(pair[1])) {
      return Fail(absl::StrCat(key, " holds something other than pairs of integers")), out;
    }
    out.emplace_back(ToIndex(pair[0].get<int64_t>(), key), ToIndex(pair[1].get<int64_t>(), key));
  }
  return out;
}

std::optional<Slice> JsonFields::OptionalSlice(const char* key) {
  if (!object_.is_object() || !object_.contains(key)) return std::nullopt;
  const std::vector<int64_t> values = Integers(key);
  if (values.size() == 2) return Slice{.first = values[0], .count = values[1]};
  return Fail(absl::StrCat(key, " is not a pair of integers")), std::nullopt;
}

std::vector<std::pair<TensorId, Slice>> JsonFields::SlicesUnlessEmpty(const char* key) {
  std::vector<std::pair<TensorId, Slice>> out;
  if (!object_.is_object() || !object_.contains(key)) return out;
  for (const Json& slice : Array(key)) {
    const bool is_right =
        slice.is_array() && slice.size() == 3 && std::all_of(slice.begin(), slice.end(), IsInteger);
    if (!is_right) return Fail(absl::StrCat(key, " holds something other than slices")), out;
    out.emplace_back(ToIndex(slice[0].get<int64_t>(), key),
                     Slice{.first = slice[1].get<int64_t>(), .count = slice[2].get<int64_t>()});
  }
  if (out.empty()) Fail(absl::StrCat(key, " is empty; an empty field must be left out"));
  return out;
}

bool JsonFields::Has(const char* key, const Json& value) {
  const Json* found = Find(key);
  if (found != nullptr && *found != value) Fail(absl::StrCat(key, " is not ", value.dump()));
  return found != nullptr;
}

void JsonFields::FailUnknown() {
  const auto& fields = object_.get_ref<const Json::object_t&>();
  for (size_t i = 0; i < fields.size() && i < kTracked; ++i) {
    const std::string& key = (fields.begin() + static_cast<std::ptrdiff_t>(i))->first;
    if ((read_ >> i & 1) == 0)
      return Fail(absl::StrCat("has an unknown field \"", key.substr(0, 64), "\""));
  }
}

absl::StatusOr<Json> ParseJson(std::string_view text, const char* file) {
  std::vector<std::vector<std::string>> keys;  // of the objects that are not yet complete
  std::optional<std::string> twice;
  const auto remember = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key) {
      std::vector<std::string>& known = keys.back();
      known.push_back(parsed.get<std::string>());
      if (std::find(known.begin(), known.end() - 1, known.back()) != known.end() - 1)
        twice = known.back();
    }
    return true;
  };
  absl::StatusOr<Json> json = Parsed(text, file, remember);
  if (!json.ok() || !twice.has_value()) return json;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": an object has the field \"", *twice, "\" twice"));
}

}  // namespace neap
