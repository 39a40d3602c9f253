// A bias per channel and the ReLU behind it, in one pass over memory: y = relu(x + bias).
//
// Networks do not contain it. Where a convolution's kernels add its bias in a pass of their own,
// the fusion pass (core/program/fuse.h) moves the bias of a Convolution to the ReLU that alone
// reads its output. Backward then computes the bias's gradient in the pass that applies the ReLU's,
// too. The results have the bits of the layers that it replaces.
//
//   step           reads     writes     in place
//   forward        x, bias   y          y over x
//   backward_data  y, dy     dx, dbias  dx over dy
//
// param 0: bias {C}, fp32.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

struct BiasRelu {
  static constexpr std::string_view kType = "bias_relu";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const BiasRelu&, const BiasRelu&) = default;
};

}  // namespace neap
