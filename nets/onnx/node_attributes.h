// Adds attributes to nodes that are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/step/window.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

inline onnx_schema::Attribute& AddAttribute(onnx_schema::Node& node, std::string_view name,
                                            onnx_schema::Attribute::Type type) {
  onnx_schema::Attribute& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(type);
  return attribute;
}
inline void SetInt(onnx_schema::Node& node, std::string_view name, int64_t value) {
  AddAttribute(node, name, onnx_schema::Attribute::INT).set_i(value);
}
inline void SetFloat(onnx_schema::Node& node, std::string_view name, float value) {
  AddAttribute(node, name, onnx_schema::Attribute::FLOAT).set_f(value);
}
inline void SetString(onnx_schema::Node& node, std::string_view name, std::string_view value) {
  AddAttribute(node, name, onnx_schema::Attribute::STRING).set_s(std::string(value));
}
inline void SetInts(onnx_schema::Node& node, std::string_view name,
                    const std::vector<int64_t>& values) {
  onnx_schema::Attribute& attribute = AddAttribute(node, name, onnx_schema::Attribute::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
}
// A number for each of the axes.
inline void SetPerAxis(onnx_schema::Node& node, std::string_view name, const Extents& value,
                       int axes) {
  const Extents each = value.Along(axes);
  SetInts(node, name, {each.values().begin(), each.values().end()});
}

}  // namespace neap::nets
