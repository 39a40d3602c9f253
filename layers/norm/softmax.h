// Softmax along one axis, as torch.nn.Softmax(dim=axis), or its logarithm, as torch.nn.LogSoftmax.
//
//   step           reads  writes  in place
//   forward        x      y       y over x
//   backward_data  y, dy  dx      dx over dy or y
//
// Of a vector x along the axis, with its largest element m:
//
//   y_i = exp(x_i - m) / sum_j exp(x_j - m)         dx = y * (dy - sum_j y_j * dy_j)
//   y_i = x_i - m - log(sum_j exp(x_j - m))         dx = dy - exp(y) * sum_j dy_j
//
// Sums are in fp32 or better and in a fixed order. A vector with a NaN, or whose elements are all
// -infinity, becomes NaN. The softmax that a cross-entropy computes itself is no layer
// (layers/softmax_cross_entropy.h).
//
//   weights = net.Add("attention", Softmax{.axis = 3}, {scores});  // over the last axis of images
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// `axis` is 1, the channels at each position, or that of a spatial extent, from 2 on.
// INVALID_ARGUMENT for another one.
struct Softmax {
  static constexpr std::string_view kType = "softmax";
  int64_t axis = 1;
  bool logarithm = false;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Softmax&, const Softmax&) = default;
};

}  // namespace neap
