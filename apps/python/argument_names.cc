#include "apps/python/argument_names.h"

#include <nanobind/stl/string.h>

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "apps/python/errors.h"

namespace neap::python {
namespace {

namespace nb = nanobind;

std::string TextOf(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

}  // namespace

DType DTypeName::Parsed() const {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOthers = {
      {{"float32", "fp32"}, {"float16", "fp16"}, {"half", "fp16"}, {"bfloat16", "bf16"}}};
  for (const auto& [other, own] : kOthers) {
    if (text == other) return Checked(ParseDType(own));
  }
  return Checked(ParseDType(text));
}

DTypeName ToDTypeName(nb::handle given) {
  // A type of NumPy is a class.
  const std::string text =
      TextOf(nb::isinstance<nb::type_object>(given) ? nb::object(given.attr("__name__"))
                                                    : nb::borrow(given));
  return {std::string(absl::StripPrefix(text, "torch."))};
}

DeviceName ToDeviceName(nb::handle given) {
  const bool is_index = nb::isinstance<nb::int_>(given) && !nb::isinstance<nb::bool_>(given);
  const std::string text = TextOf(given);
  if (is_index) return {absl::StrCat("cuda:", text)};
  return {text == "cuda" ? "cuda:0" : text};
}

}  // namespace neap::python
