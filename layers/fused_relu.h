// A ReLU together with the bias before it, the max pooling behind it, or both, in one pass over
// memory: y = max_pool(relu(x + bias)).
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a Relu and a
// MaxPool. Where a convolution's kernels add its bias in a pass of their own, it moves the bias of
// a Convolution to the ReLU that alone reads its output. The results have the bits of the layers
// that it replaces.
//
//   step                       reads      writes     in place
//   forward                    x, bias    y          y over x
//   backward_data              y, dy      dx, dbias  dx over dy
//   with pooling: forward      x, bias    y, index
//                 backward     dy, index  dx, dbias
//
// The ReLU's result is not stored if it is pooled. The index is that of MaxPool (layers/pooling.h),
// or kNotPositive where the maximum is 0, so that the gradient stops at the ReLU; backward needs
// neither x nor y. param 0: bias {C}, fp32, if there is one.
#pragma once

#include <optional>

#include "neap/core/step/layer.h"
#include "neap/layers/pooling.h"

namespace neap {

struct FusedRelu {
  static constexpr std::string_view kType = "fused_relu";
  bool bias = false;
  std::optional<MaxPool> pool = {};  // CanPoolRelu()
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  std::optional<Layer> FusedWith(const Layer& reader, int input) const;
  friend bool operator==(const FusedRelu&, const FusedRelu&) = default;
};

}  // namespace neap
