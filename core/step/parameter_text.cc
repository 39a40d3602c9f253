#include "neap/core/step/parameter_text.h"

#include <array>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace neap {
namespace {

// The fewest digits that identify this number.
std::string ShortestText(float value) {
  std::array<char, 32> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

}  // namespace

Parameter::Parameter(std::string_view name, const std::string& value)
    : text_(absl::StrCat(std::string(name), "=", value)) {}
Parameter::Parameter(std::string_view name, int64_t value) : Parameter(name, absl::StrCat(value)) {}
Parameter::Parameter(std::string_view name, bool value)
    : Parameter(name, std::string(value ? "true" : "false")) {}
Parameter::Parameter(std::string_view name, float value) : Parameter(name, ShortestText(value)) {}
Parameter::Parameter(std::string_view name, const Extents& value)
    : Parameter(name, value.ToString()) {}

std::string ParameterText(std::initializer_list<Parameter> parameters) {
  return absl::StrJoin(parameters, " ", [](std::string* out, const Parameter& parameter) {
    out->append(parameter.text());
  });
}

}  // namespace neap
