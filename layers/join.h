// Layers where branches meet.
//
//   Add      forward        x_0 .. x_{n-1}  y     in place: y over x_0
//            backward_data  dy              dx_i  only if gradients have to be summed
//   Concat   forward        x_0 .. x_{n-1}  y     along the channels
//            backward_data  dy              dx_i
//
// Both accumulate natively: they add to a dx_i that already holds a partial sum.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// Sum of two or more tensors of the same shape.
struct Add {
  static constexpr std::string_view kType = "add";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Add&, const Add&) = default;
};

// Inputs concatenated along C; their N, H and W must agree.
struct Concat {
  static constexpr std::string_view kType = "concat";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Concat&, const Concat&) = default;
};

// The concatenation of all inputs. Errors: those of Concat::Specify().
absl::StatusOr<TensorSpec> ConcatenationOf(const LayerContext& context);

}  // namespace neap
