// The fields of one JSON object of a file that neap reads. Private to the readers of plans and of
// descriptions of devices.
//
// Each field is read once; the first fault is kept, so callers need not check each field, and a
// field that was not asked for is a fault, too.
//
//   ASSIGN_OR_RETURN(const JsonFields::Json json, ParseJson(text, "plan"));
//   JsonFields fields(json.at("tensors").at(3), "plan", "tensors[3]");
//   const int64_t bytes = fields.Integer("bytes");
//   RETURN_IF_ERROR(fields.Finish());  // "plan: tensors[3]: has an unknown field \"size\""
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
#include "neap/core/base/ids.h"
#include "neap/core/base/tensor.h"

namespace neap {

// The largest integer in a file, and the largest sum of a plan's sizes.
inline constexpr int64_t kMaxBytes = int64_t{1} << 60;

class JsonFields {
 public:
  using Json = nlohmann::ordered_json;

  // `file` is the kind of file and `where` the object's place in it, "" for all of it: errors begin
  // with both.
  JsonFields(const Json& object, const char* file, std::string where)
      : object_(object), file_(file), where_(std::move(where)) {
    if (!object.is_object()) Fail("is not an object");
  }

  int64_t Integer(const char* key) {
    const Json* value = Required(key);
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
    const Json* value = Required(key);
    if (value == nullptr || !value->is_number())
      return Fail(absl::StrCat(key, " is not a number")), 0.0;
    return value->get<double>();
  }
  bool Boolean(const char* key) {
    const Json* value = Required(key);
    if (value == nullptr || !value->is_boolean())
      return Fail(absl::StrCat(key, " is not a boolean")), false;
    return value->get<bool>();
  }
  std::string Text(const char* key) {
    const Json* value = Required(key);
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
    const Json* value = Required(key);
    if (value == nullptr || !value->is_array())
      return Fail(absl::StrCat(key, " is not an array")), empty;
    return *value;
  }
  // The value, or null if it is null or faulty.
  const Json& NullOr(const char* key, bool (Json::*is_right)() const noexcept, const Json& null);
  std::vector<int64_t> Integers(const char* key);
  std::vector<TensorId> Ids(const char* key) {
    std::vector<TensorId> out;
    for (int64_t value : Integers(key)) out.emplace_back(ToIndex(value, key));
    return out;
  }
  std::vector<std::pair<TensorId, TensorId>> Pairs(const char* key);
  // A field that is left out unless it has a value.
  std::optional<Slice> OptionalSlice(const char* key);
  // A field that is left out if it is empty.
  std::vector<std::pair<TensorId, Slice>> SlicesUnlessEmpty(const char* key);
  // Whether the object has the field, the value of which must then be `value`.
  bool Has(const char* key, const Json& value);
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
    const auto& fields = object_.get_ref<const Json::object_t&>();
    const auto found = fields.find(key);
    if (found == fields.end()) return nullptr;
    if (const auto index = found - fields.begin(); index < kTracked) read_ |= uint64_t{1} << index;
    ++found_;
    return &found->second;
  }
  // The same for a field that must be there.
  const Json* Required(const char* key) {
    const Json* const found = Find(key);
    if (found == nullptr) Fail(absl::StrCat("has no field \"", key, "\""));
    return found;
  }

  void Fail(std::string_view what) {
    if (!status_.ok()) return;
    const absl::string_view text(what.data(), what.size());
    status_ = absl::InvalidArgumentError(
        absl::StrCat(file_, ": ", where_, where_.empty() ? "" : ": ", text));
  }
  const absl::Status& status() const { return status_; }
  // To be called after all fields have been read: a field that was not requested is a fault.
  absl::Status Finish() {
    if (object_.is_object() && found_ < object_.size()) FailUnknown();
    return status_;
  }

 private:
  static bool IsInteger(const Json& value) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{kMaxBytes};
    return value.get<int64_t>() >= -kMaxBytes && value.get<int64_t>() <= kMaxBytes;
  }
  void FailUnknown();
  int32_t ToIndex(int64_t value, const char* key) {
    if (value >= 0 && value <= std::numeric_limits<int32_t>::max())
      return static_cast<int32_t>(value);
    Fail(absl::StrCat(key, ": ", value, " is not an id"));
    return 0;
  }

  const Json& object_;
  const char* file_;
  std::string where_;
  size_t found_ = 0;
  static constexpr int kTracked = 64;  // no object has as many fields that are known
  uint64_t read_ = 0;                  // a bit for each of the first fields: whether it was read
  absl::Status status_;
};

// Errors: INVALID_ARGUMENT, which begins with `file`, if the text is not JSON, has a number that is
// too large, or an object with a field twice, of which the parser alone would keep one.
absl::StatusOr<JsonFields::Json> ParseJson(std::string_view text, const char* file);

}  // namespace neap
