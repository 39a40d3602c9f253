// Batch normalisation together with the sum and the ReLU that follow it, in as many passes over
// memory as batch normalisation alone takes: y = relu(batch_norm(x_0) + x_1).
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a BatchNorm, an Add
// of two tensors and a Relu, or of the first and one of the others. It computes the same bits as
// these layers one after another.
//
//   step                 reads                                            writes
//   forward (training)   x_0, x_1, gamma, beta                            y, mean, invstd
//     rerun              x_0, x_1, gamma, beta, mean, invstd              y
//   forward (inference)  x_0, x_1, gamma, beta, running statistics        y
//   backward_data        x_0, dy, gamma, mean, invstd, beta or y          dx_0, dx_1, dgamma, dbeta
//
// x_1 and dx_1 exist if it adds. With a ReLU, backward needs to know where y is 0: after a sum it
// reads y; otherwise it computes the sign of y again from x_0 and beta, so that y need not be kept
// for it. y may overwrite x_1. Without a sum, dx_0 may overwrite dy; with one, dx_1 may overwrite
// dy, and dx_0 may overwrite x_0. Parameters, states and saved tensors are those of BatchNorm.
#pragma once

#include <optional>

#include "neap/core/step/layer.h"
#include "neap/layers/batch_norm.h"

namespace neap {

struct FusedBatchNorm {
  static constexpr std::string_view kType = "fused_batch_norm";
  BatchNorm norm = {};
  bool adds = false;  // input 1 is added to the normalised input 0
  bool relu = false;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  std::optional<Layer> FusedWith(const Layer& reader) const;
  friend bool operator==(const FusedBatchNorm&, const FusedBatchNorm&) = default;
};

// A BatchNorm as the FusedBatchNorm that nothing follows; a FusedBatchNorm as it is. Their kernels
// are the same. The layer must be one of the two.
FusedBatchNorm FusedBatchNormOf(const Layer& layer);

}  // namespace neap
