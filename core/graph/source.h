// The layer through which values enter the network. It has no steps: its tensor holds its values
// when the iteration begins.
#pragma once

#include <string>
#include <string_view>

#include "neap/core/step/layer.h"

namespace neap {

// What the caller gives for every iteration, such as images {N, C, H, W}, sequences {N, C, T},
// volumes {N, C, D, H, W}, vectors {N, F}, class indices int32 {N}, or {N, H, W} for one per pixel.
// The first extent is the batch.
struct Feed {
  static constexpr std::string_view kType = "feed";
  TensorSpec tensor;
  bool has_network_type = true;  // WithOptions() (core/graph/with_options.h) changes its type
  // Whether it has the layout of the network: numbers with spatial axes. Integers are indices.
  bool has_channels() const {
    return tensor.shape.spatial_axes() > 0 && tensor.dtype != DType::kInt32;
  }
  // Errors: INVALID_ARGUMENT for a tensor with no elements, or with more than 16 TiB.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Feed&, const Feed&) = default;
};

// The shape of the labels of predictions {N, C, H, W}: {N, H, W}, or {N} if H and W are 1. The same
// for other numbers of spatial axes.
Shape LabelShape(const Shape& predictions);

}  // namespace neap
