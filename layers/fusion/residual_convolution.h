// A 1x1 convolution and the sum behind it in one matrix product: y = convolution(x_0) + bias + x_1.
//
// Networks do not contain it. On a GPU, the fusion pass (core/program/fuse.h) makes it of a
// Convolution with a kernel and a stride of 1, without padding or groups, and the Add of two
// tensors behind it, if they have the channels last: the output of such a convolution is a product
// of matrices, to which cuBLASLt adds a third one for the time of reading it
// (layers/cuda/conv/position_convolution.h). The sum is rounded once, when it is stored, where the
// two layers round the product, too. So y can differ from theirs by that rounding, and in fp32 and
// tf32 in its last bits, by the order in which the bias is added and if cuBLAS takes another
// algorithm. A CPU's kernels, which its rules do not use, have the bits of the two layers.
//
//   step             reads                     writes
//   forward          x_0, x_1, weight, [bias]  y
//   backward_params  x_0, dy                   dweight, [dbias]
//   backward_data    dy, weight                dx_0
//
// dx_1 is dy, the same tensor (LayerSpec::passes_linear_grad). y may not overwrite x_1, because
// cuBLASLt's products have other bits then. The parameters are the convolution's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/convolution.h"

namespace neap {

struct ResidualConvolution {
  static constexpr std::string_view kType = "residual_convolution";
  int64_t out_channels = 0;
  bool bias = true;
  Convolution convolution() const { return {.out_channels = out_channels, .bias = bias}; }
  // Errors: those of the convolution; INVALID_ARGUMENT also for channels that are not last, and an
  // x_1 that is not like y.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ResidualConvolution&, const ResidualConvolution&) = default;
};

}  // namespace neap
