// Norm over the channels at each position of an image, as torch.nn.LayerNorm(C) of a tensor whose
// channels are the last axis: the LayerNorm2d of ConvNeXt, and a transformer's norm of its
// features.
//
//   step                  reads                             writes
//   forward (training)    x, [gamma, [beta]]                y, mean, invstd
//     rerun               x, [gamma, [beta]], mean, invstd  y
//   forward (inference)   x, [gamma, [beta]]                y
//   backward_data         x, dy, [gamma], mean, invstd,     dx, [dgamma, [dbeta]]
//                         [addend]
//
// y = (x - mean) * invstd * gamma + beta, where the mean and invstd = 1 / sqrt(biased variance +
// epsilon) are those of the channels. y may overwrite x, and dx dy.
// params, if `affine`: 0 weight (gamma), which begins at 1, and, unless `bias` is false, 1 bias
// (beta), which begins at 0, both {C}; saved: 0 mean, 1 invstd, both {N, 1} and the positions of x,
// fp32. Without `affine`, `bias` says nothing, as torch.nn.LayerNorm's. A rerun gives y the same
// bits. Images are independent, and gradients of the parameters are sums over them: kernels of
// backward_data can add to these. A gradient of x that
// others have contributed to, the addend, is added to dx, which is rounded first.
#pragma once

#include <string>

#include "neap/core/step/layer.h"

namespace neap {

struct LayerNorm {
  static constexpr std::string_view kType = "layer_norm";
  float epsilon = 1e-5F;
  bool affine = true;
  bool bias = true;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const LayerNorm&, const LayerNorm&) = default;
};

}  // namespace neap
