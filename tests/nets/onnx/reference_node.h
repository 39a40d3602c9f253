// A node of an ONNX graph with the values of its inputs, and access to their elements, for the
// reference of ONNX's operators (tests/nets/onnx/onnx_reference.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "onnx_schema.pb.h"
#include "tests/nets/onnx/onnx_reference.h"

namespace neap::testing::reference {

using Dims = std::vector<int64_t>;
using T = ReferenceTensor;

inline int64_t Count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t extent : dims) count *= extent;
  return count;
}

inline T Zeros(Dims dims) {
  const auto count = static_cast<size_t>(Count(dims));
  return {std::move(dims), std::vector<double>(count, 0.0)};
}

// One node with the values of its inputs.
struct Run {
  const onnx_schema::Node& node;
  std::vector<T> in;

  const onnx_schema::Attribute* Find(const std::string& name) const {
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == name) return &attribute;
    }
    return nullptr;
  }
  int64_t Int(const std::string& name, int64_t absent) const {
    return Find(name) == nullptr ? absent : Find(name)->i();
  }
  double Float(const std::string& name, double absent) const {
    return Find(name) == nullptr ? absent : static_cast<double>(Find(name)->f());
  }
  Dims Ints(const std::string& name, Dims absent) const {
    if (Find(name) == nullptr) return absent;
    return {Find(name)->ints().begin(), Find(name)->ints().end()};
  }
  int64_t Axis(int64_t absent, int64_t rank) const {
    const int64_t axis = Int("axis", absent);
    return axis < 0 ? axis + rank : axis;
  }
};

inline double& At(T& t, int64_t n, int64_t c, int64_t h, int64_t w) {
  return t.values[static_cast<size_t>(((n * t.dims[1] + c) * t.dims[2] + h) * t.dims[3] + w)];
}
inline double At(const T& t, int64_t n, int64_t c, int64_t h, int64_t w) {
  return At(const_cast<T&>(t), n, c, h, w);
}
inline bool Inside(const T& t, int64_t h, int64_t w) {
  return h >= 0 && h < t.dims[2] && w >= 0 && w < t.dims[3];
}

// Calls `visit(n, c, h, w)` for every element.
inline void Each(const T& t, const std::function<void(int64_t, int64_t, int64_t, int64_t)>& visit) {
  for (int64_t n = 0; n < t.dims[0]; ++n)
    for (int64_t c = 0; c < t.dims[1]; ++c)
      for (int64_t h = 0; h < t.dims[2]; ++h)
        for (int64_t w = 0; w < t.dims[3]; ++w) visit(n, c, h, w);
}

}  // namespace neap::testing::reference
