// Convolution (cross-correlation) along 1 to 3 spatial axes, as in torch.nn.Conv1d, Conv2d and
// Conv3d.
//
//   step            reads              writes
//   forward         x, weight, [bias]  y
//   backward_params x, dy              dweight, [dbias]
//   backward_data   dy, weight,        dx
//                   [addend]
//
// A gradient of x that others have contributed to, the addend, is added to dx, which is rounded
// first, where every channel has a convolution of its own, as in ConvNeXt's blocks.
// weight is {out_channels, in_channels / groups, kernel...}, with the extents of the kernel along
// each axis, in the network's layout, bias {out_channels}.
#pragma once

#include <optional>
#include <utility>

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"
#include "neap/layers/initial_weights.h"

namespace neap {

struct Convolution {
  static constexpr std::string_view kType = "convolution";
  int64_t out_channels = 0;
  Extents kernel = 1;
  Extents stride = 1;
  Extents padding = 0;
  Extents dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  InitialWeights init = {};

  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

}  // namespace neap
