// The layers through which a batch enters the network. Sources have no steps: their tensors hold
// their values when the iteration begins.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// Images {N, C, H, W}.
struct Images {
  static constexpr std::string_view kType = "images";
  TensorSpec tensor;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return tensor.ToString(); }
  friend bool operator==(const Images&, const Images&) = default;
};

// The shape of the labels of predictions {N, C, H, W}: {N, H, W}, or {N} if H and W are 1.
Shape LabelShape(const Shape& predictions);

// Class indices, int32: {N}, or {N, H, W} for one per pixel.
struct Labels {
  static constexpr std::string_view kType = "labels";
  TensorSpec tensor;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return tensor.ToString(); }
  friend bool operator==(const Labels&, const Labels&) = default;
};

// A target for each element of the predictions, fp32 {N, C, H, W}, in the layout of the network.
struct Targets {
  static constexpr std::string_view kType = "targets";
  TensorSpec tensor;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return tensor.ToString(); }
  friend bool operator==(const Targets&, const Targets&) = default;
};

}  // namespace neap
