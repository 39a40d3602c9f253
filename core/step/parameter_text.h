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

#include "neap/core/step/window.h"

namespace neap {

// "name=value". Different values never have the same text.
class Parameter {
 public:
  Parameter(std::string_view name, int64_t value);
  Parameter(std::string_view name, bool value);
  Parameter(std::string_view name, float value);
  Parameter(std::string_view name, const Extents& value);
  const std::string& text() const { return text_; }

 private:
  Parameter(std::string_view name, const std::string& value);
  std::string text_;
};

// The parameters in the given order, separated by spaces.
std::string ParameterText(std::initializer_list<Parameter> parameters);

}  // namespace neap
