// A ReLU together with the max pooling behind it and perhaps the bias before it, in one pass over
// memory: y = max_pool(relu(x + bias)).
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a Relu and a
// MaxPool. Where a convolution's kernels add its bias in a pass of their own, it moves the bias of
// a Convolution to the pooled ReLU that alone reads its output. The results have the bits of the
// layers that it replaces.
//
//   step           reads      writes
//   forward        x, bias    y, index
//   backward_data  dy, index  dx, dbias
//
// The ReLU's result is not stored. The index is that of MaxPool (layers/pooling.h), or kNotPositive
// where the maximum is 0, so that the gradient stops at the ReLU; backward needs neither x nor y.
// param 0: bias {C}, fp32, if there is one.
#pragma once

#include "neap/core/step/layer.h"
#include "neap/layers/pooling.h"

namespace neap {

struct FusedRelu {
  static constexpr std::string_view kType = "fused_relu";
  bool bias = false;
  MaxPool pool = {};  // CanPoolRelu(), for the axes of x
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const FusedRelu&, const FusedRelu&) = default;
};

}  // namespace neap
