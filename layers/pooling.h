// Max and average pooling, as torch.nn.MaxPool2d and AvgPool2d, and global average pooling.
//
//   step                     reads      writes
//   max:     forward         x          y, index
//            backward_data   dy, index  dx
//   average: forward         x          y
//            backward_data   dy         dx
//
// The index says which element of the window won, the first on ties: h * kernel.w + w, in 1 byte
// per output (4 where the window exceeds 256 elements). A NaN wins over every number, as in
// PyTorch.
#pragma once

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

struct MaxPool {
  static constexpr std::string_view kType = "max_pool";
  Extent2d kernel = 2;
  Extent2d stride = 2;
  Extent2d padding = 0;  // at most half the kernel
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const MaxPool&, const MaxPool&) = default;
};

struct AveragePool {
  static constexpr std::string_view kType = "average_pool";
  Extent2d kernel = 2;
  Extent2d stride = 2;
  Extent2d padding = 0;  // at most half the kernel
  // Padded zeros count (torch's count_include_pad); otherwise the mean is over what lies in the
  // image.
  bool count_padding = true;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const AveragePool&, const AveragePool&) = default;
};

// Mean over H and W: {N, C, H, W} -> {N, C, 1, 1}.
struct GlobalAveragePool {
  static constexpr std::string_view kType = "global_average_pool";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const GlobalAveragePool&, const GlobalAveragePool&) = default;
};

}  // namespace neap
