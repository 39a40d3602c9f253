// Layers where branches meet.
//
//   Add      forward        x_0 .. x_{n-1}  y     in place: y over x_0
//            backward_data  dy              dx_i  only if gradients have to be summed
//     per channel           dy              dx_i  in place: dx_0 over dy
//   Concat   forward        x_0 .. x_{n-1}  y     along the channels
//            backward_data  dy              dx_i
//
// Both accumulate natively: they add to a dx_i that already holds a partial sum.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// Sum of two or more tensors of the same shape, or per channel: of a tensor and one with a value
// for each of its images and channels, {N, C, 1, 1}, such as what a diffusion model adds for its
// time step. dx_1 is then the sum of dy over the positions, in fp32 or better and in a fixed order,
// rounded once.
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
