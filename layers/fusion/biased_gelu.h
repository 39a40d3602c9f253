// A GELU together with the bias before it, in one pass over memory: y = gelu(x + bias).
//
// Networks do not contain it. Where a convolution's bias would be summed in a pass of its own, the
// fusion pass (core/program/fuse.h) moves the bias of a Convolution to the Gelu that alone reads
// its output. Forward reads and writes what the Gelu alone does; backward, which writes the
// gradient of the convolution's output, sums it, too. It computes the same bits as AddBias and Gelu
// one after another: x + bias is rounded to the type of x, and so is the gradient before it is
// summed. On a GPU the sums of large tensors have more parts than those of a bias alone, and may
// differ from them in their last bits. A convolution that adds its bias before it rounds
// (layers/cuda/conv/position_convolution.h) rounds once less.
//
//   step           reads        writes     in place
//   forward        x, bias      y          y over x
//   backward_data  x, dy, bias  dx, dbias  dx over dy
//
// param 0: bias {C}, fp32. Images are independent, and dbias is a sum over them: kernels can add to
// it.
#pragma once

#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/activation.h"

namespace neap {

struct BiasedGelu {
  static constexpr std::string_view kType = "biased_gelu";
  Gelu gelu = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return gelu.Parameters(); }
  friend bool operator==(const BiasedGelu&, const BiasedGelu&) = default;
};

}  // namespace neap
