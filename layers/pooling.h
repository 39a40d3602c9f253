// Max and average pooling along 1 to 3 spatial axes, as torch.nn.MaxPool2d and AvgPool2d, global
// average pooling, and average pooling to a given size, as torch.nn.AdaptiveAvgPool2d. The first
// two may have windows with dilation, as the average pooling of ONNX does and that of torch does
// not.
//
//   step                     reads      writes
//   max:     forward         x          y, index
//            backward_data   dy, index  dx
//   average: forward         x          y
//            backward_data   dy         dx
//
// The index is the position of the maximum in its window, in which the last axis runs fastest, the
// first on ties. It has 1 byte per output, or 4 if the window exceeds 256 elements. NaN counts as
// larger than any number, as in PyTorch.
//
// With ceil_mode, a pooling has one more window if windows at equal distances do not end with the
// padded image, unless that window would begin behind the image. It holds the elements that exist:
//
//   7 pixels, kernel 3, stride 3, no padding
//   |0 1 2|3 4 5|6    |   3 outputs, or 2 without ceil_mode
//
// The mean of that window divides by the number of pixels that it holds: those of the image and, if
// count_padding, of the padding, but not those beyond the padding.
//
// With dilation, the elements of a window are `dilation` pixels apart, so it reaches over
// dilation * (kernel - 1) + 1 pixels, of which padding may be half. A window that then holds no
// pixel of the image has no maximum and no mean, so a pooling with such a window is an error,
// unless it counts padding:
//
//   4 pixels, kernel 2, dilation 5, padding 1
//   - 0 1 2 3 -
//   |         |     holds padding only
//
// Backward of global average pooling accumulates natively: it adds to a dx that already holds a
// partial sum, as where squeeze and excitation pools what it multiplies (layers/multiply.h).
//
// Windows of adaptive average pooling are as many as asked for and cover the image, with one pixel
// in common where they would end within it: window i is [floor(i * in / out), ceil((i + 1) * in /
// out)).
//
//   7 pixels to 3
//   |0 1 2|
//       |2 3 4|
//           |4 5 6|
//
// Max pooling of a ReLU's result can run in the ReLU's pass (layers/fusion/fused_relu.h,
// layers/fusion/norm_pass.h). Its index then also says where the ReLU passes no gradient.
// Global average pooling can run in the pass of a batch norm and what follows it.
#pragma once

#include <cstdint>

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

struct MaxPool {
  static constexpr std::string_view kType = "max_pool";
  Extents kernel = 2;
  Extents stride = 2;
  Extents padding = 0;  // at most half the window's reach
  bool ceil_mode = false;
  Extents dilation = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // ceil_mode and dilation only if they are set.
  std::string Parameters() const;
  friend bool operator==(const MaxPool&, const MaxPool&) = default;
};

// Number of positions along one axis with ceil_mode of a window that reaches over `reach` pixels,
// for an image with `before` and `after` pixels of padding: ceil((size + before + after - reach) /
// stride) + 1, or one less if the last window would begin behind the image; 0 if there is none.
// (WindowPositions() rounds down.)
constexpr int64_t CeilPositions(int64_t size, int64_t reach, int64_t stride, int64_t before,
                                int64_t after) {
  const int64_t slack = size + before + after - reach;
  if (slack <= -stride) return 0;
  const int64_t last = (slack + stride - 1) / stride;  // the position of the last window
  return last * stride < size + before ? last + 1 : last;
}

// Whether each of a pooling's windows holds a pixel of the image along one axis, where `padding` is
// at most half the window's reach. So windows of which `dilation` is 1 do.
bool AllHoldPixels(int64_t size, int64_t positions, int64_t stride, int64_t padding,
                   int64_t dilation);

// The index of a window whose maximum is not positive, if a ReLU is in the same pass.
inline constexpr uint8_t kNotPositive = 255;
// Whether no position in the window has this index, for tensors with so many spatial axes.
inline bool CanPoolRelu(const MaxPool& pool, int axes) {
  return pool.kernel.Suits(axes) && pool.kernel.Along(axes).product() <= kNotPositive;
}

struct AveragePool {
  static constexpr std::string_view kType = "average_pool";
  Extents kernel = 2;
  Extents stride = 2;
  Extents padding = 0;  // at most half the window's reach
  // The mean includes padded zeros (torch's count_include_pad); otherwise only the elements inside
  // the image.
  bool count_padding = true;
  bool ceil_mode = false;
  Extents dilation = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // ceil_mode and dilation only if they are set.
  std::string Parameters() const;
  friend bool operator==(const AveragePool&, const AveragePool&) = default;
};

// Mean over the spatial axes: {N, C, H, W} -> {N, C, 1, 1}, {N, C, T} -> {N, C, 1}.
struct GlobalAveragePool {
  static constexpr std::string_view kType = "global_average_pool";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const GlobalAveragePool&, const GlobalAveragePool&) = default;
};

// Means of `size` windows along each axis. INVALID_ARGUMENT for one window along every axis, which
// is a GlobalAveragePool: that joins the pass of the layer before it.
struct AdaptiveAveragePool {
  static constexpr std::string_view kType = "adaptive_average_pool";
  Extents size = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const AdaptiveAveragePool&, const AdaptiveAveragePool&) = default;
};

}  // namespace neap
