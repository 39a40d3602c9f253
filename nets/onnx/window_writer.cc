// Writes linear layers, layers with windows, and those that give images other extents.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "neap/nets/onnx/axes/pixel_blocks.h"
#include "neap/nets/onnx/even_window.h"
#include "neap/nets/onnx/node_attributes.h"
#include "neap/nets/onnx/node_writer.h"
#include "neap/nets/onnx/scaled_extents.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;

// Numbers for the side before each axis, then for the side behind each.
std::vector<int64_t> BothSides(const Extents& before, const Extents& after, int axes) {
  const Extents first = before.Along(axes), second = after.Along(axes);
  std::vector<int64_t> sides(first.values().begin(), first.values().end());
  sides.insert(sides.end(), second.values().begin(), second.values().end());
  return sides;
}
void SetWindow(Node& node, const Extents& kernel, const Extents& stride, const Extents& padding,
               int axes) {
  SetPerAxis(node, "kernel_shape", kernel, axes);
  SetPerAxis(node, "strides", stride, axes);
  SetInts(node, "pads", BothSides(padding, padding, axes));
}

// How ONNX states the windows of a pooling. A last window that passes the padding needs ceil_mode,
// or more padding behind the image. Without regard to the image, ceil_mode has a window more in
// ONNX where neap's would begin behind the image, and then only the padding does.
struct PoolWindows {
  Extents after;  // padding behind the image
  bool ceil_mode;
};

struct PoolAxis {
  int64_t size, positions, reach, stride, padding;
  // The padding behind the image that the last position needs.
  int64_t Needed() const { return (positions - 1) * stride + reach - size - padding; }
  bool IsCeiling() const {
    const int64_t slack = size + 2 * padding - reach;
    return (slack + stride - 1) / stride + 1 == positions;
  }
};

template <typename Pool>
PoolWindows WindowsOf(const Pool& pool, const Shape& x, const Shape& y) {
  const Window window = {.kernel = pool.kernel, .dilation = pool.dilation};
  bool is_ceiling = pool.ceil_mode;
  std::vector<int64_t> after;
  for (int i = 0; i < x.spatial_axes(); ++i) {
    const PoolAxis axis = {x[2 + i], y[2 + i], window.Reach(i), pool.stride[i], pool.padding[i]};
    is_ceiling = is_ceiling && axis.IsCeiling();
    after.push_back(std::max(pool.padding[i], axis.Needed()));
  }
  if (is_ceiling) return {pool.padding, true};
  return {Extents::Of(after), false};
}

template <typename Pool>
void SetPool(Node& node, const Pool& pool, const PoolWindows& windows, int axes) {
  SetPerAxis(node, "kernel_shape", pool.kernel, axes);
  SetPerAxis(node, "strides", pool.stride, axes);
  SetInts(node, "pads", BothSides(pool.padding, windows.after, axes));
  if (windows.ceil_mode) SetInt(node, "ceil_mode", 1);
  if (!pool.dilation.AllAre(1)) SetPerAxis(node, "dilations", pool.dilation, axes);
}

}  // namespace

absl::Status NodeWriter::WriteLinear(const ResolvedLayer& layer) {
  const int axes = layer.spec.output.shape.spatial_axes();
  if (const auto* const conv = layer.layer.As<Convolution>()) {
    Node& node = AddNode(layer, "Conv", Axes::kImages);
    SetWindow(node, conv->kernel, conv->stride, conv->padding, axes);
    SetPerAxis(node, "dilations", conv->dilation, axes);
    SetInt(node, "group", conv->groups);
    return AddWeights(layer, node);
  }
  if (const auto* const transposed = layer.layer.As<TransposedConvolution>()) {
    Node& node = AddNode(layer, "ConvTranspose", Axes::kImages);
    SetWindow(node, transposed->kernel, transposed->stride, transposed->padding, axes);
    return AddWeights(layer, node);
  }
  if (layer.layer.As<FullyConnected>() != nullptr) {
    Node& node = AddNode(layer, "Gemm", Axes::kVectors);
    SetInt(node, "transB", 1);
    return AddWeights(layer, node);
  }
  if (layer.layer.As<Prelu>() != nullptr) return WritePrelu(layer);
  if (const auto* const linear = layer.layer.As<ScaleShift>())
    return WriteScaleShift(layer, *linear);
  return WriteNorm(layer);
}

void NodeWriter::WriteAverage(const ResolvedLayer& layer, const AveragePool& pool) {
  const Shape& x = network_.SpecOf(layer.inputs[0]).shape;
  const int axes = x.spatial_axes();
  PoolWindows windows = WindowsOf(pool, x, layer.spec.output.shape);
  AveragePool written = pool;
  Node* node = &AddNode(layer, "AveragePool", Axes::kImages);
  if (pool.count_padding && windows.after.Along(axes) != pool.padding.Along(axes)) {
    // More padding would count, too. So the image has the padding, and pixels behind it do not
    // count.
    Node& pad = *node;
    pad.set_op_type("Pad");
    node = &AddBehind(layer, pad, ".pad", "AveragePool");
    std::vector<int64_t> side = {0, 0}, after;
    for (int i = 0; i < axes; ++i) {
      side.push_back(pool.padding[i]);
      after.push_back(windows.after[i] - pool.padding[i]);
    }
    std::vector<int64_t> pads = side;
    pads.insert(pads.end(), side.begin(), side.end());
    AddIntegers("pads", pads, pad);
    windows.after = Extents::Of(after);
    written.padding = 0;
    written.count_padding = false;
  }
  SetPool(*node, written, windows, axes);
  SetInt(*node, "count_include_pad", written.count_padding ? 1 : 0);
  if (!pool.dilation.AllAre(1)) NeedOpset(kOpsetOfDilatedAverages);
}

bool NodeWriter::WritePooling(const ResolvedLayer& layer) {
  if (const auto* const max = layer.layer.As<MaxPool>()) {
    const Shape& x = network_.SpecOf(layer.inputs[0]).shape;
    SetPool(AddNode(layer, "MaxPool", Axes::kImages), *max,
            WindowsOf(*max, x, layer.spec.output.shape), x.spatial_axes());
    return true;
  }
  if (const auto* const average = layer.layer.As<AveragePool>()) {
    WriteAverage(layer, *average);
    return true;
  }
  if (layer.layer.As<GlobalAveragePool>() != nullptr) {
    AddNode(layer, "GlobalAveragePool", Axes::kImages);
    return true;
  }
  return layer.layer.As<AdaptiveAveragePool>() != nullptr && WriteAdaptive(layer);
}

// ONNX's poolings have windows of one size.
bool NodeWriter::WriteAdaptive(const ResolvedLayer& layer) {
  const Shape& x = network_.SpecOf(layer.inputs[0]).shape;
  const Shape& y = layer.spec.output.shape;
  std::vector<int64_t> window;
  for (int axis = 2; axis < x.rank(); ++axis) {
    if (x[axis] % y[axis] != 0) return false;
    window.push_back(x[axis] / y[axis]);
  }
  const Extents extents = Extents::Of(window);
  WriteAverage(layer, {.kernel = extents, .stride = extents});
  return true;
}

// Parts of images, images with zeros around them, and repeated ones.
bool NodeWriter::WriteBorder(const ResolvedLayer& layer) {
  const int axes = layer.spec.output.shape.spatial_axes();
  if (const auto* const crop = layer.layer.As<Crop>()) {
    Node& node = AddNode(layer, "Slice", Axes::kImages);
    std::vector<int64_t> starts, ends, positions;
    for (int i = 0; i < axes; ++i) {
      starts.push_back(crop->offset[i]);
      ends.push_back(crop->offset[i] + crop->size[i]);
      positions.push_back(2 + i);
    }
    AddIntegers("starts", starts, node);
    AddIntegers("ends", ends, node);
    AddIntegers("axes", positions, node);
    return true;
  }
  if (const auto* const pad = layer.layer.As<ZeroPad>()) {
    Node& node = AddNode(layer, "Pad", Axes::kImages);
    const Padding zeros = PaddingOf(*pad, axes);
    std::vector<int64_t> pads;
    for (const auto& side : {zeros.before, zeros.after}) {
      pads.insert(pads.end(), {0, 0});
      pads.insert(pads.end(), side.begin(), side.begin() + axes);
    }
    AddIntegers("pads", pads, node);
    return true;
  }
  if (const auto* const tile = layer.layer.As<Tile>()) {
    std::vector<int64_t> repeats = {1, tile->channels};
    for (int i = 0; i < axes; ++i) repeats.push_back(tile->repeats[i]);
    AddIntegers("repeats", repeats, AddNode(layer, "Tile", Axes::kImages));
    return true;
  }
  return false;
}

bool NodeWriter::WriteResize(const ResolvedLayer& layer, const Resize& resize) {
  const Shape& x = network_.SpecOf(layer.inputs[0]).shape;
  const absl::Span<const int64_t> spatial = layer.spec.output.shape.spatial();
  const std::vector<int64_t> sizes(spatial.begin(), spatial.end());
  // Corners that are aligned depend on sizes alone, but libraries do not agree on it.
  bool has_sizes =
      resize.sizes.has_value() || resize.coordinates == Resize::Coordinates::kAlignCorners;
  if (!has_sizes && OnnxExtents(resize, x) != sizes) {
    if (RoundsAny(resize, x)) return false;
    has_sizes = true;
  }
  Node& node = AddNode(layer, "Resize", Axes::kImages);
  node.add_input("");  // the region of interest, of tf_crop_and_resize alone
  if (has_sizes) {
    std::vector<int64_t> resized(sizes.size());
    std::iota(resized.begin(), resized.end(), 2);
    node.add_input("");  // the scales
    AddIntegers("sizes", sizes, node);
    SetInts(node, "axes", resized);
    NeedOpset(kOpsetOfResizedAxes);
  } else {
    std::vector<float> scales = {1, 1};
    for (int i = 0; i < x.spatial_axes(); ++i)
      scales.push_back(static_cast<float>(*resize.ScaleOf(i)));
    AddNumbers("scales", scales, node);
  }
  SetString(node, "mode", Name(resize.mode));
  SetString(node, "coordinate_transformation_mode", Name(resize.coordinates));
  if (resize.mode == Resize::Mode::kCubic)
    SetFloat(node, "cubic_coeff_a", resize.cubic_coefficient);
  if (resize.mode != Resize::Mode::kNearest) return true;
  const bool rounds_halves = resize.rounding == Resize::Rounding::kPreferFloor ||
                             resize.rounding == Resize::Rounding::kPreferCeil;
  SetString(node, "nearest_mode",
            absl::StrCat(rounds_halves ? "round_" : "", std::string(Name(resize.rounding))));
  return true;
}

// ONNX has operators for images, and for PixelUnshuffle in one order only.
template <typename Shuffle>
void NodeWriter::WriteBlocks(const ResolvedLayer& layer, const Shuffle& shuffle) {
  if (shuffle.factor == 1) {  // blocks of one pixel are no blocks to a reader
    AddNode(layer, "Identity", Axes::kImages);
    return;
  }
  const PixelBlocks blocks = BlocksOf(shuffle, network_.SpecOf(layer.inputs[0]).shape);
  WriteTransposed(layer, blocks.dims, blocks.order);
}

bool NodeWriter::WriteResized(const ResolvedLayer& layer) {
  const bool is_image = layer.spec.output.shape.spatial_axes() == 2;
  if (const auto* const resize = layer.layer.As<Resize>()) return WriteResize(layer, *resize);
  if (const auto* const shuffle = layer.layer.As<PixelShuffle>()) {
    if (!is_image) {
      WriteBlocks(layer, *shuffle);
      return true;
    }
    Node& node = AddNode(layer, "DepthToSpace", Axes::kImages);
    SetInt(node, "blocksize", shuffle->factor);
    SetString(node, "mode", shuffle->blocks_first ? "DCR" : "CRD");
    return true;
  }
  if (const auto* const unshuffle = layer.layer.As<PixelUnshuffle>()) {
    if (is_image && unshuffle->blocks_first) {
      SetInt(AddNode(layer, "SpaceToDepth", Axes::kImages), "blocksize", unshuffle->factor);
    } else {
      WriteBlocks(layer, *unshuffle);
    }
    return true;
  }
  return false;
}

}  // namespace neap::nets
