// Layers that drop values in training, and copy their input in inference.
//
//   Dropout                   elements (torch.nn.Dropout)
//   Dropout with per_channel  the channels of each image (torch.nn.Dropout1d, 2d and 3d)
//   StochasticDepth           images: a residual branch (torchvision.ops.StochasticDepth, mode
//                             "row"; Huang et al., 2016)
//
// Each of these is zeroed with a probability, the others are scaled by 1 / (1 - probability).
//
//   step           reads          writes  in place
//   forward        x, iteration   y       y over x
//   backward_data  dy, iteration  dx      dx over dy
//
// The mask is not stored: a counter-based random number of (session seed, layer seed, step, i)
// decides whether number i is dropped (core/base/philox.h, DropoutKeeps), so a rerun, another
// device and a resumed run repeat it. Elements are numbered in memory order, channels in the order
// N, C, whatever the layout, and images in their order. In a sub-batch, i counts those of the
// images before it too, so the masks are those of the whole batch.
//
//   x = net.Add("drop", StochasticDepth{.rate = 0.2F}, {x});
//   x = net.Add("add", Add{}, {x, shortcut});
#pragma once

#include "neap/core/step/layer.h"
#include "neap/core/step/step_signature.h"

namespace neap {

// INVALID_ARGUMENT for a probability outside [0, 1).
struct Dropout {
  static constexpr std::string_view kType = "dropout";
  float probability = 0.5F;
  bool per_channel = false;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Dropout&, const Dropout&) = default;
};

// INVALID_ARGUMENT for a rate, the probability, outside [0, 1).
struct StochasticDepth {
  static constexpr std::string_view kType = "stochastic_depth";
  float rate = 0.1F;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const StochasticDepth&, const StochasticDepth&) = default;
};

// What a step of these layers drops: the channels of `units`, which is the tensor that it reads
// with its elements, channels or images as channels. The first has number `first` in the whole
// batch.
struct DroppedUnits {
  TensorSpec units;
  int64_t first = 0;
  float probability = 0;
};
DroppedUnits DroppedUnitsOf(const StepSignature& signature);
// The same for a step of another layer that drops images: of x_0 forward, otherwise of dy.
DroppedUnits DroppedImagesOf(const StepSignature& signature, float rate);

}  // namespace neap
