// The fields of a layer definition as one line of text. A definition uses it to implement
// Parameters().
//
//   std::string Crop::Parameters() const {
//     return ParameterText({{"size", size}, {"offset", offset}});  // "size=24x24 offset=4x4"
//   }
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "neap/core/step/window.h"

namespace neap {

// "name=value". Different values never have the same text.
class Parameter {
 public:
  Parameter(std::string_view name, int64_t value);
  Parameter(std::string_view name, bool value);
  Parameter(std::string_view name, float value);
  Parameter(std::string_view name, const Extents& value);
  // Numbers for each axis or class, as extents: "1.5x2".
  Parameter(std::string_view name, absl::Span<const double> value);
  Parameter(std::string_view name, absl::Span<const float> value);
  // The name of an enumeration's value.
  Parameter(std::string_view name, std::string_view value);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The parameters in the given order, separated by spaces.
std::string ParameterText(std::initializer_list<Parameter> parameters);

}  // namespace neap
