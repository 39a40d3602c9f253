// Norms over the positions of each image: group norm, and instance norm, which is a group norm with
// a group for each channel.
//
//   step                  reads                             writes
//   forward (training)    x, [gamma, [beta]]                y, mean, invstd
//     rerun               x, [gamma, [beta]], mean, invstd  y
//   forward (inference)   x, [gamma, [beta]]                y
//   backward_data         x, dy, [gamma], mean, invstd      dx, [dgamma, [dbeta]]
//
// y = (x - mean) * invstd * gamma + beta, where the mean and invstd = 1 / sqrt(biased variance +
// epsilon) are those of the values of an image in a group of channels, at all positions. y may
// overwrite x, and dx dy.
// params, if `affine`: 0 weight (gamma), which begins at 1, and, unless `bias` is false, 1 bias
// (beta), which begins at 0, both {C}; saved: 0 mean, 1 invstd, both {N, groups}, fp32. Without
// `affine`, `bias` says nothing. A rerun gives y the same bits. Images are independent, and
// gradients of the parameters are sums over them: kernels of backward_data can add to these.
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// As torch.nn.GroupNorm. A group with one value becomes beta, or 0. INVALID_ARGUMENT unless the
// number of channels is a multiple of `groups`.
struct GroupNorm {
  static constexpr std::string_view kType = "group_norm";
  int64_t groups = 1;
  float epsilon = 1e-5F;
  bool affine = true;
  bool bias = true;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const GroupNorm&, const GroupNorm&) = default;
};

// As torch.nn.InstanceNorm1d, 2d and 3d without running statistics. Lower() refuses training with
// one position (LayerSpec::values_per_variance), as PyTorch does; in inference its value becomes
// beta, or 0.
struct InstanceNorm {
  static constexpr std::string_view kType = "instance_norm";
  float epsilon = 1e-5F;
  bool affine = false;
  bool bias = true;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const InstanceNorm&, const InstanceNorm&) = default;
};

// The group norm that either layer is, of so many channels.
GroupNorm GroupNormOf(const Layer& layer, int64_t channels);

}  // namespace neap
