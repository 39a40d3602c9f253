// The fields of one JSON object of a plan file. Private to Plan::FromJson().
//
// Each field is read once; the first fault is kept, so callers need not check each field, and a
// field that was not asked for is a fault, too.
//
//   JsonFields fields(json, "tensors[3]");
//   const int64_t bytes = fields.Integer("bytes");
//   RETURN_IF_ERROR(fields.Finish());  // "plan: tensors[3]: has unknown fields"
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/tensor.h"

namespace neap {

// The largest number in a plan, and the largest sum of its sizes.
inline constexpr int64_t kMaxBytes = int64_t{1} << 60;

class JsonFields {
 public:
  using Json = nlohmann::ordered_json;

  JsonFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) Fail("is not an object");
  }

  int64_t Integer(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !IsInteger(*value)) {
      return Fail(absl::StrCat(key, " is not an integer from -2^60 to 2^60")), 0;
    }
    return value->get<int64_t>();
  }
  // nullopt if the object has no such field.
  std::optional<int64_t> OptionalInteger(const char* key) {
    if (!object_.is_object() || !object_.contains(key)) return std::nullopt;
    return Integer(key);
  }
  int32_t Index(const char* key) { return ToIndex(Integer(key), key); }
  double Number(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_number())
      return Fail(absl::StrCat(key, " is not a number")), 0.0;
    return value->get<double>();
  }
  bool Boolean(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_boolean())
      return Fail(absl::StrCat(key, " is not a boolean")), false;
    return value->get<bool>();
  }
  std::string Text(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_string())
      return Fail(absl::StrCat(key, " is not a string")), "";
    return value->get<std::string>();
  }
  template <typename Enum>
  Enum Named(const char* key, absl::StatusOr<Enum> (*parse)(std::string_view)) {
    const absl::StatusOr<Enum> value = parse(Text(key));
    if (!value.ok()) return Fail(std::string(value.status().message())), Enum{};
    return *value;
  }
  const Json& Array(const char* key) {
    static const Json empty = Json::array();
    const Json* value = Find(key);
    if (value == nullptr || !value->is_array())
      return Fail(absl::StrCat(key, " is not an array")), empty;
    return *value;
  }
  // The value, or null if it is null or faulty.
  const Json& NullOr(const char* key, bool (Json::*is_right)() const noexcept, const Json& null) {
    const Json* value = Find(key);
    if (value != nullptr && (value->is_null() || (value->*is_right)())) return *value;
    Fail(absl::StrCat(key, " is missing or of the wrong type"));
    return null;
  }
  std::vector<int64_t> Integers(const char* key) {
    std::vector<int64_t> out;
    for (const Json& item : Array(key)) {
      if (!IsInteger(item)) Fail(absl::StrCat(key, " holds something other than integers"));
      out.push_back(IsInteger(item) ? item.get<int64_t>() : 0);
    }
    return out;
  }
  std::vector<TensorId> Ids(const char* key) {
    std::vector<TensorId> out;
    for (int64_t value : Integers(key)) out.emplace_back(ToIndex(value, key));
    return out;
  }
  std::vector<std::pair<TensorId, TensorId>> Pairs(const char* key) {
    std::vector<std::pair<TensorId, TensorId>> out;
    for (const Json& pair : Array(key)) {
      if (!pair.is_array() || pair.size() != 2 || !IsInteger(pair[0]) || !IsInteger(pair[1])) {
        return Fail(absl::StrCat(key, " holds something other than pairs of integers")), out;
      }
      out.emplace_back(ToIndex(pair[0].get<int64_t>(), key), ToIndex(pair[1].get<int64_t>(), key));
    }
    return out;
  }
  // A field that is left out unless it has a value.
  std::optional<Slice> OptionalSlice(const char* key) {
    if (!object_.is_object() || !object_.contains(key)) return std::nullopt;
    const std::vector<int64_t> values = Integers(key);
    if (values.size() == 2) return Slice{.first = values[0], .count = values[1]};
    return Fail(absl::StrCat(key, " is not a pair of integers")), std::nullopt;
  }
  // A field that is left out if it is empty.
  std::vector<std::pair<TensorId, Slice>> SlicesUnlessEmpty(const char* key) {
    std::vector<std::pair<TensorId, Slice>> out;
    if (!object_.is_object() || !object_.contains(key)) return out;
    for (const Json& slice : Array(key)) {
      const bool is_right = slice.is_array() && slice.size() == 3 &&
                            std::all_of(slice.begin(), slice.end(), IsInteger);
      if (!is_right) return Fail(absl::StrCat(key, " holds something other than slices")), out;
      out.emplace_back(ToIndex(slice[0].get<int64_t>(), key),
                       Slice{.first = slice[1].get<int64_t>(), .count = slice[2].get<int64_t>()});
    }
    if (out.empty()) Fail(absl::StrCat(key, " is empty; an empty field must be left out"));
    return out;
  }
  // Whether the object has the field, the value of which must then be `value`.
  bool Has(const char* key, const Json& value) {
    const Json* found = Find(key);
    if (found != nullptr && *found != value) Fail(absl::StrCat(key, " is not ", value.dump()));
    return found != nullptr;
  }
  // A field that is left out if it is empty.
  std::string TextUnlessEmpty(const char* key) {
    if (!object_.is_object() || !object_.contains(key)) return "";
    std::string text = Text(key);
    if (text.empty()) Fail(absl::StrCat(key, " is empty; an empty field must be left out"));
    return text;
  }
  // A field that is left out if it has this value.
  int64_t IntegerUnless(int64_t left_out, const char* key) {
    const std::optional<int64_t> value = OptionalInteger(key);
    if (value == left_out)
      Fail(absl::StrCat(key, " is ", left_out, "; a field of ", left_out, " must be left out"));
    return value.value_or(left_out);
  }
  // Each key must be requested at most once.
  const Json* Find(const char* key) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    ++found_;
    return &*found;
  }

  void Fail(std::string_view what) {
    if (status_.ok())
      status_ = absl::InvalidArgumentError(absl::StrFormat("plan: %s: %s", where_, what));
  }
  const absl::Status& status() const { return status_; }
  // To be called after all fields have been read: a field that was not requested is a fault.
  absl::Status Finish() {
    if (object_.is_object() && found_ < object_.size()) Fail("has unknown fields");
    return status_;
  }

 private:
  static bool IsInteger(const Json& value) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{kMaxBytes};
    return value.get<int64_t>() >= -kMaxBytes && value.get<int64_t>() <= kMaxBytes;
  }
  int32_t ToIndex(int64_t value, const char* key) {
    if (value >= 0 && value <= std::numeric_limits<int32_t>::max())
      return static_cast<int32_t>(value);
    Fail(absl::StrCat(key, ": ", value, " is not an id"));
    return 0;
  }

  const Json& object_;
  std::string where_;
  size_t found_ = 0;
  absl::Status status_;
};

}  // namespace neap
