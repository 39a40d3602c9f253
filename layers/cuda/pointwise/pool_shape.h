// The shape of a max pool as kernels take it, for layers that contain one.
#pragma once

#include "neap/core/base/tensor.h"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/pooling.h"

namespace neap::cuda {

static_assert(kernels::kStopsAtRelu == kNotPositive);

// With channels first, images and volumes are treated as such of one channel. `layer` has kernel,
// stride, padding and dilation.
template <typename Pool>
kernels::PoolShape PoolShapeOf(const Pool& layer, const TensorSpec& x, const TensorSpec& y) {
  const bool last = x.layout == Layout::kChannelsLast;
  const int axes = x.shape.spatial_axes();
  return {.outer = last ? x.shape.n() : x.shape.n() * x.shape.c(),
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
          .dilation_w = static_cast<int>(layer.dilation.w())};
}

}  // namespace neap::cuda
