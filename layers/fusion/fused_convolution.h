// A convolution, its bias and the ReLU behind it in one layer: y = relu(convolution(x) + bias).
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a Convolution and
// the Relu that alone reads its output. cuDNN has kernels for it that add the bias, rounded to the
// type of y, to sums in fp32 and round once, so in 16 bits y can differ from the two layers' by the
// rounding of the bias, and in its last bit; and in every type if the two layers run on an engine
// that sums in another order. Other kernels run the convolution and then change y in place, with
// the bits of a convolution without a bias that is followed by a ReLU which adds it.
//
//   step                 reads                 writes           in place
//   forward              x, weight, [bias]     y
//   backward_activation  y, dy                 dz, [dbias]      dz over dy
//   backward_params      x, dz                 dweight
//   backward_data        dz, weight            dx
//
// dz is the gradient before the ReLU. The parameters are the convolution's.
#pragma once

#include "neap/core/step/layer.h"
#include "neap/layers/convolution.h"

namespace neap {

struct FusedConvolution {
  static constexpr std::string_view kType = "fused_convolution";
  Convolution convolution;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return convolution.Parameters(); }
  friend bool operator==(const FusedConvolution&, const FusedConvolution&) = default;
};

}  // namespace neap
