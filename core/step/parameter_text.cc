#include "neap/core/step/parameter_text.h"

#include <array>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace neap {
namespace {

// The fewest digits that identify this number of its type.
template <typename Float>
std::string ShortestText(Float value) {
  std::array<char, 32> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

template <typename Float>
std::string TextOfAll(absl::Span<const Float> values) {
  return absl::StrJoin(values, "x",
                       [](std::string* out, Float number) { out->append(ShortestText(number)); });
}

}  // namespace

Parameter::Parameter(std::string_view name, std::string_view value)
    : text_(absl::StrCat(std::string(name), "=", std::string(value))) {}
Parameter::Parameter(std::string_view name, int64_t value)
    : Parameter(name, std::string_view(absl::StrCat(value))) {}
Parameter::Parameter(std::string_view name, bool value)
    : Parameter(name, std::string_view(value ? "true" : "false")) {}
Parameter::Parameter(std::string_view name, float value)
    : Parameter(name, std::string_view(ShortestText(value))) {}
Parameter::Parameter(std::string_view name, const Extents& value)
    : Parameter(name, std::string_view(value.ToString())) {}
Parameter::Parameter(std::string_view name, absl::Span<const double> value)
    : Parameter(name, std::string_view(TextOfAll(value))) {}
Parameter::Parameter(std::string_view name, absl::Span<const float> value)
    : Parameter(name, std::string_view(TextOfAll(value))) {}

std::string ParameterText(std::initializer_list<Parameter> parameters) {
  return absl::StrJoin(parameters, " ", [](std::string* out, const Parameter& parameter) {
    out->append(parameter.text());
  });
}

}  // namespace neap
