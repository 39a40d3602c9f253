// The shape of a max pool as kernels take it, for layers that contain one.
#pragma once

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/tensor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/pooling.h"

namespace neap::cuda {

static_assert(kernels::kStopsAtRelu == kNotPositive);

// Where a window over volumes has one plane and does not move along D, each plane is an image.
inline kernels::PoolShape WithPlanesAsImages(kernels::PoolShape shape) {
  if (shape.kernel_d != 1 || shape.stride_d != 1 || shape.padding_d != 0) return shape;
  shape.planes = shape.d;
  shape.outer *= shape.d;
  shape.axes = 2;
  shape.d = shape.out_d = shape.dilation_d = 1;
  return shape;
}

// With channels first, images and volumes are treated as such of one channel. `layer` has kernel,
// stride, padding and dilation.
template <typename Pool>
kernels::PoolShape PoolShapeOf(const Pool& layer, const TensorSpec& x, const TensorSpec& y) {
  const bool last = x.layout == Layout::kChannelsLast;
  const int axes = x.shape.spatial_axes();
  return WithPlanesAsImages({.outer = last ? x.shape.n() : x.shape.n() * x.shape.c(),
                             .channels = last ? x.shape.c() : 1,
                             .axes = axes,
                             .d = static_cast<int>(x.shape.d()),
                             .h = static_cast<int>(x.shape.h()),
                             .w = static_cast<int>(x.shape.w()),
                             .out_d = static_cast<int>(y.shape.d()),
                             .out_h = static_cast<int>(y.shape.h()),
                             .out_w = static_cast<int>(y.shape.w()),
                             .kernel_d = static_cast<int>(layer.kernel.d(axes, 1)),
                             .kernel_h = static_cast<int>(layer.kernel.h()),
                             .kernel_w = static_cast<int>(layer.kernel.w()),
                             .stride_d = static_cast<int>(layer.stride.d(axes, 1)),
                             .stride_h = static_cast<int>(layer.stride.h()),
                             .stride_w = static_cast<int>(layer.stride.w()),
                             .padding_d = static_cast<int>(layer.padding.d(axes, 0)),
                             .padding_h = static_cast<int>(layer.padding.h()),
                             .padding_w = static_cast<int>(layer.padding.w()),
                             .dilation_d = static_cast<int>(layer.dilation.d(axes, 1)),
                             .dilation_h = static_cast<int>(layer.dilation.h()),
                             .dilation_w = static_cast<int>(layer.dilation.w())});
}

// UNIMPLEMENTED if a kernel that pools x to y, or the gradient of y to that of x, has too few bits
// to count the vectors of an image, or of those that it takes together, or positions along an axis.
// Forward with values per channel, it takes an image of each channel together.
template <typename Pool>
absl::Status CheckPoolFits32(const StepSignature& signature, const Pool& layer, const TensorSpec& x,
                             const TensorSpec& y, bool has_values_per_channel = false) {
  for (int i = 0; i < x.shape.spatial_axes(); ++i)
    RETURN_IF_ERROR(CheckFits32(signature, x.shape[2 + i] + 2 * layer.padding[i]));
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& counted = forward ? y : x;
  const int64_t channels = x.shape.c(), wide = 16 / SizeOf(x.dtype);
  const int64_t planes = PoolShapeOf(layer, x, y).planes;
  if (x.layout == Layout::kChannelsLast) {
    const int64_t vectors = channels % wide == 0 ? channels / wide : channels;
    return CheckFits32(signature, counted.shape.positions() / planes * vectors);
  }
  const bool takes_turns = forward && has_values_per_channel && channels > 1;
  return CheckFits32(signature,
                     counted.shape.positions() / planes * (takes_turns ? channels * planes : 1));
}

}  // namespace neap::cuda
