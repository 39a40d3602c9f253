// Fully connected layer: y = x W^T + b on the flattened image, as torch.nn.Flatten and Linear.
//
//   step             reads              writes
//   forward          x, weight, [bias]  y
//   backward_params  x, dy              dweight, [dbias]
//   backward_data    dy, weight         dx
//
// Kernels of backward_params can add to the gradients, the largest of many networks.
//
// y is {N, out_features, 1, 1}. weight is {out_features, C, H, W} in the network's layout, which
// avoids reordering x, and {out_features, C*H*W} in files; bias is {out_features}.
#pragma once

#include "neap/core/step/layer.h"
#include "neap/layers/initial_weights.h"

namespace neap {

struct FullyConnected {
  static constexpr std::string_view kType = "fully_connected";
  int64_t out_features = 0;
  bool bias = true;
  InitialWeights init = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const FullyConnected&, const FullyConnected&) = default;
};

}  // namespace neap
