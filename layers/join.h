// Layers where branches meet.
//
//   Add      forward        x_0 .. x_{n-1}  y     in place: y over x_0
//            backward_data  dy              dx_i  only where a sum of gradients must be made
//   Concat   forward        x_0 .. x_{n-1}  y     along the channels
//            backward_data  dy              dx_i
//
// Both accumulate natively: a dx_i that already holds a sum is added to.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// Sum of two or more tensors of one shape.
struct Add {
  static constexpr std::string_view kType = "add";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Add&, const Add&) = default;
};

// Inputs one after another along C; N, H, W agree.
struct Concat {
  static constexpr std::string_view kType = "concat";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Concat&, const Concat&) = default;
};

}  // namespace neap
