// Transposed convolution along 1 to 3 spatial axes, as in torch.nn.ConvTranspose2d: each element of
// x adds a copy of the kernel, scaled by the element, to y. Networks that label every pixel use it
// for upsampling.
//
//   step            reads              writes
//   forward         x, weight, [bias]  y
//   backward_params x, dy              dweight, [dbias]
//   backward_data   dy, weight         dx
//
// y is (size - 1) * stride - 2 * padding + kernel along each axis. weight is {in_channels,
// out_channels, kernel...} in the network's layout, bias {out_channels}. The kernels run it as the
// gradient of a convolution from y to x with the same weight: its forward is that convolution's
// backward_data, and its backward_data that convolution's forward.
#pragma once

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"
#include "neap/layers/convolution.h"

namespace neap {

struct TransposedConvolution {
  static constexpr std::string_view kType = "transposed_convolution";
  int64_t out_channels = 0;
  Extents kernel = 1;
  Extents stride = 1;
  Extents padding = 0;
  bool bias = true;
  // Initialises the weight to bilinear interpolation of each channel (Long et al., 2015, section
  // 3.3) instead of random numbers.
  bool bilinear = false;
  InitialWeights init = {};  // otherwise

  // The convolution from y to x.
  constexpr Convolution Transposed(int64_t in_channels) const {
    return {.out_channels = in_channels,
            .kernel = kernel,
            .stride = stride,
            .padding = padding,
            .bias = false};
  }
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const TransposedConvolution&, const TransposedConvolution&) = default;
};

}  // namespace neap
