// Windows of ONNX, which may have other padding above than below, as windows of neap's layers,
// which have the same on opposite sides.
//
// If the same padding on both sides would move a window, something else makes up for it. Zeros that
// a convolution reads, or that an average counts, can be in the image: a ZeroPad before the layer.
// The padding of a maximum, or of an average that counts no padding, cannot be stored in an image.
// But such a window holds only pixels of the image wherever it ends, so it may pass the end in
// ceil_mode, and extra windows are cut off: a Crop behind the layer.
//
//   4 pixels, kernel 3, stride 2, 0 before and 1 after them, as TensorFlow's SAME
//   |0 1 2|
//       |2 3 -|             convolution: no padding, behind a ZeroPad of 1 after the image
//                           maximum: no padding, in ceil_mode
//   4 pixels, kernel 2, stride 1, 0 before and 1 after them
//   |0 1|1 2|2 3|3 -|       maximum: padding 1, and a Crop that leaves the first window out
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/specify.h"
#include "neap/layers/crop.h"
#include "neap/layers/zero_pad.h"
#include "neap/nets/onnx/network_builder.h"

namespace neap::nets {

// The values that a window reads where it passes the image.
enum class Outside : uint8_t {
  kZeros,         // as in a convolution
  kCountedZeros,  // an average, of which the padding is a part
  kNothing,       // a maximum, and an average without the padding
};

// A window as a node has it.
struct OnnxWindow {
  Extents kernel = 1;
  Extents stride = 1;
  Extents dilation = 1;
  Padding padding = {};
  bool ceil_mode = false;
  int64_t Reach(int axis) const { return Window{kernel, stride, 0, dilation}.Reach(axis); }
};

struct EvenWindow {
  Window window;
  bool ceil_mode = false;
  ZeroPad zeros;             // around the image before the layer
  std::optional<Crop> crop;  // of what the layer computes
};

// Number of positions along one axis of a window that covers `reach` pixels.
int64_t Positions(int64_t size, int64_t reach, int64_t stride, int64_t before, int64_t after,
                  bool ceil_mode);

struct FitOptions {
  Outside outside = Outside::kNothing;
  // Zeros of a Pad node that are not in the image, and that the layer adds. Not for kNothing.
  Padding pad = {};
  bool may_add_zeros = false;    // EvenWindow::zeros; otherwise there are none
  bool keeps_ceil_mode = false;  // even if it makes no difference
};

// The window for an image of this size. Absent if no layer has it. A window with the same padding
// on opposite sides that does not fit into the image stays as it is: the layer refuses it.
std::optional<EvenWindow> FitWindow(absl::Span<const int64_t> image, const OnnxWindow& window,
                                    const FitOptions& options);

// A layer that adds so many zeros to tensors with so many spatial axes, and the padding of one.
ZeroPad ZerosOf(const Padding& padding, int axes);
Padding PaddingOf(const ZeroPad& zeros, int axes);

}  // namespace neap::nets
