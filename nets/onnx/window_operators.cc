// Convolutions and poolings.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"
#include "neap/core/step/window.h"
#include "neap/layers/convolution.h"
#include "neap/layers/pooling.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

absl::Status Not(const std::string& attribute, const std::vector<int64_t>& values,
                 const std::string& what) {
  return absl::UnimplementedError(
      absl::StrCat("attribute '", attribute, "' is ", absl::StrJoin(values, ", "), "; ", what));
}

// An attribute with a value for each of height and width.
absl::StatusOr<Extent2d> Pair(NodeReader& node, const std::string& name,
                              std::vector<int64_t> absent) {
  const std::vector<int64_t> values = node.Ints(name, std::move(absent));
  RETURN_IF_ERROR(node.Attributes());
  if (values.size() != 2) return Not(name, values, "height and width are needed");
  return Extent2d(values[0], values[1]);
}

bool IsExtent(int64_t value) { return value >= 0 && value <= kLargestWindowExtent; }

// The padding at one axis that auto_pad stands for.
std::pair<int64_t, int64_t> SamePadding(int64_t size, int64_t kernel, int64_t stride,
                                        int64_t dilation, bool upper) {
  const int64_t positions = (size + stride - 1) / stride;
  const int64_t total =
      std::max<int64_t>(0, (positions - 1) * stride + dilation * (kernel - 1) + 1 - size);
  const int64_t smaller = total / 2;
  return upper ? std::pair(smaller, total - smaller) : std::pair(total - smaller, smaller);
}

absl::StatusOr<Padding> ReadPadding(NodeReader& node, const Window& window, const neap::Shape& x) {
  const std::string automatic = node.String("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = node.Ints("pads", {0, 0, 0, 0});
  if (automatic == "VALID") return Padding{};
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const bool upper = automatic == "SAME_UPPER";
    const auto [top, bottom] =
        SamePadding(x.h(), window.kernel.h, window.stride.h, window.dilation.h, upper);
    const auto [left, right] =
        SamePadding(x.w(), window.kernel.w, window.stride.w, window.dilation.w, upper);
    return Padding{top, left, bottom, right};
  }
  if (automatic != "NOTSET")
    return absl::UnimplementedError(absl::StrCat("attribute 'auto_pad' is ", automatic));
  if (pads.size() != 4 || !std::all_of(pads.begin(), pads.end(), IsExtent))
    return Not("pads", pads, "four extents from 0 are needed");
  return Padding{pads[0], pads[1], pads[2], pads[3]};
}

// Number of positions along one axis of a window that covers `reach` pixels.
int64_t Positions(int64_t size, int64_t reach, int64_t stride, int64_t before, int64_t after,
                  bool ceil_mode) {
  if (ceil_mode) return CeilPositions(size, reach, stride, before, after);
  const int64_t slack = size + before + after - reach;
  return slack < 0 ? 0 : slack / stride + 1;
}

// One axis of a window with padding on both sides, as one with the same on both, if the window has
// the same positions then.
absl::StatusOr<int64_t> EqualPadding(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                                     int64_t before, int64_t after, bool ceil_mode) {
  const int64_t reach = dilation * (kernel - 1) + 1;
  const auto positions = [&](int64_t behind) {
    return Positions(size, reach, stride, before, behind, ceil_mode);
  };
  if (before == after || positions(after) == positions(before)) return before;
  return absl::UnimplementedError(absl::StrCat("its padding is ", before, " before and ", after,
                                               " after the image, which moves its window"));
}

// The padding of the node and of a Pad before it.
absl::StatusOr<Padding> WholePadding(NodeReader& node, const Window& window, const ImageValue& x) {
  ASSIGN_OR_RETURN(const Padding own, ReadPadding(node, window, x.spec.shape));
  const Padding& before = x.padding;
  return Padding{own.top + before.top, own.left + before.left, own.bottom + before.bottom,
                 own.right + before.right};
}

// Kernel, stride, padding and dilation, with padding from a node before.
absl::StatusOr<Window> ReadWindow(NodeReader& node, const ImageValue& x, Extent2d kernel,
                                  bool ceil_mode = false) {
  Window window = {.kernel = kernel};
  ASSIGN_OR_RETURN(window.stride, Pair(node, "strides", {1, 1}));
  ASSIGN_OR_RETURN(window.dilation, Pair(node, "dilations", {1, 1}));
  RETURN_IF_ERROR(CheckWindow(window));
  const neap::Shape& shape = x.spec.shape;
  ASSIGN_OR_RETURN(const Padding padding, WholePadding(node, window, x));
  ASSIGN_OR_RETURN(window.padding.h,
                   EqualPadding(shape.h(), kernel.h, window.stride.h, window.dilation.h,
                                padding.top, padding.bottom, ceil_mode));
  ASSIGN_OR_RETURN(window.padding.w,
                   EqualPadding(shape.w(), kernel.w, window.stride.w, window.dilation.w,
                                padding.left, padding.right, ceil_mode));
  RETURN_IF_ERROR(CheckWindow(window));
  return window;
}

absl::Status CheckIsImage(const ImageValue& x) {
  if (!x.is_flat) return absl::OkStatus();
  return absl::UnimplementedError("its input is no image but a vector");
}

// The weight of a convolution: {.., .., height, width}.
absl::StatusOr<Weight> ReadKernel(NodeReader& node) {
  ASSIGN_OR_RETURN(const Weight weight, node.Tensor(1, "weight"));
  const std::vector<int64_t> dims = weight.stored.dims();
  if (dims.size() != 4) {
    return absl::UnimplementedError(
        absl::StrCat("its weight has ", dims.size(), " axes; convolutions of images have 4"));
  }
  const std::vector<int64_t> kernel = {dims[2], dims[3]};
  if (node.Ints("kernel_shape", kernel) == kernel) return weight;
  return absl::InvalidArgumentError("its kernel_shape is not that of its weight");
}

// Kernel and bias.
absl::StatusOr<std::vector<Weight>> ReadWeights(NodeReader& node) {
  std::vector<Weight> weights(1);
  ASSIGN_OR_RETURN(weights[0], ReadKernel(node));
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(weights.emplace_back(), node.Tensor(2, "bias"));
  }
  return weights;
}

absl::StatusOr<Window> ReadPool(NodeReader& node, const ImageValue& x, bool ceil_mode) {
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(const Extent2d kernel, Pair(node, "kernel_shape", {}));
  ASSIGN_OR_RETURN(const Window window, ReadWindow(node, x, kernel, ceil_mode));
  if (window.dilation == Extent2d(1)) return window;
  return Not("dilations", {window.dilation.h, window.dilation.w}, "neap's poolings have none");
}

// Whether the window has more positions in ceil_mode.
bool DependsOnCeil(const neap::Shape& x, const Window& window, const Padding& padding) {
  const auto depends = [](int64_t size, int64_t kernel, int64_t stride, int64_t before,
                          int64_t after) {
    return Positions(size, kernel, stride, before, after, /*ceil_mode=*/true) >
           Positions(size, kernel, stride, before, after, /*ceil_mode=*/false);
  };
  return depends(x.h(), window.kernel.h, window.stride.h, padding.top, padding.bottom) ||
         depends(x.w(), window.kernel.w, window.stride.w, padding.left, padding.right);
}

}  // namespace

absl::Status Conv(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.PaddedImage(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(std::vector<Weight> weights, ReadWeights(node));
  const std::vector<int64_t> dims = weights[0].stored.dims();
  ASSIGN_OR_RETURN(const Window window, ReadWindow(node, x, {dims[2], dims[3]}));
  const Convolution layer = {.out_channels = dims[0],
                             .kernel = window.kernel,
                             .stride = window.stride,
                             .padding = window.padding,
                             .dilation = window.dilation,
                             .groups = node.Int("group", 1),
                             .bias = weights.size() > 1};
  return network.AddLayer(node.proto(), layer, {std::move(x)}, std::move(weights));
}

absl::Status ConvTranspose(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(std::vector<Weight> weights, ReadWeights(node));
  const std::vector<int64_t> dims = weights[0].stored.dims();
  ASSIGN_OR_RETURN(const Extent2d stride, Pair(node, "strides", {1, 1}));
  ASSIGN_OR_RETURN(const Extent2d dilation, Pair(node, "dilations", {1, 1}));
  ASSIGN_OR_RETURN(const Extent2d output_padding, Pair(node, "output_padding", {0, 0}));
  ASSIGN_OR_RETURN(const Padding pads, ReadPadding(node, {}, x.spec.shape));
  if (node.String("auto_pad", "NOTSET") != "NOTSET")
    return absl::UnimplementedError("attribute 'auto_pad'");
  if (node.Int("group", 1) != 1) return absl::UnimplementedError("attribute 'group' is not 1");
  if (dilation != Extent2d(1)) return absl::UnimplementedError("attribute 'dilations' is not 1");
  if (output_padding != Extent2d(0))
    return absl::UnimplementedError("attribute 'output_padding' is not 0");
  if (pads.top != pads.bottom || pads.left != pads.right)
    return absl::UnimplementedError("attribute 'pads' differs between the sides");
  const TransposedConvolution layer = {.out_channels = dims[1],
                                       .kernel = {dims[2], dims[3]},
                                       .stride = stride,
                                       .padding = {pads.top, pads.left},
                                       .bias = weights.size() > 1};
  return network.AddLayer(node.proto(), layer, {std::move(x)}, std::move(weights));
}

absl::Status MaxPool(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  const bool ceil_mode = node.Int("ceil_mode", 0) != 0;
  ASSIGN_OR_RETURN(const Window window, ReadPool(node, x, ceil_mode));
  node.Int("storage_order", 0);  // of the second output
  const auto& [h, w] = window.padding;
  const neap::MaxPool layer = {
      .kernel = window.kernel,
      .stride = window.stride,
      .padding = window.padding,
      .ceil_mode = ceil_mode && DependsOnCeil(x.spec.shape, window, {h, w, h, w})};
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

absl::Status AveragePool(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.PaddedImage(0));
  const bool ceil_mode = node.Int("ceil_mode", 0) != 0;
  ASSIGN_OR_RETURN(const Window window, ReadPool(node, x, /*ceil_mode=*/false));
  ASSIGN_OR_RETURN(const Padding padding, WholePadding(node, window, x));
  if (ceil_mode && DependsOnCeil(x.spec.shape, window, padding)) {
    return absl::UnimplementedError(
        absl::StrCat("attribute 'ceil_mode' is 1, and the window passes the end of the image ",
                     x.spec.shape.h(), "x", x.spec.shape.w()));
  }
  const bool count_padding = node.Int("count_include_pad", 0) != 0;
  if (!count_padding && x.padding != Padding{})
    return absl::UnimplementedError("a Pad before it is counted, its own padding is not");
  if (window.kernel == Extent2d(1) && window.stride == Extent2d(1) &&
      window.padding == Extent2d(0)) {
    network.Set(node.proto().output(0), std::move(x));
    return absl::OkStatus();
  }
  return network.AddLayer(node.proto(),
                          neap::AveragePool{.kernel = window.kernel,
                                            .stride = window.stride,
                                            .padding = window.padding,
                                            .count_padding = count_padding},
                          {std::move(x)});
}

absl::Status GlobalAveragePool(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  return network.AddLayer(node.proto(), neap::GlobalAveragePool{}, {std::move(x)});
}

absl::Status Pad(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  const std::string mode = node.String("mode", "constant");
  ASSIGN_OR_RETURN(const Constant constant, node.Constant(1));
  ASSIGN_OR_RETURN(const double value, node.Scalar(2, 0));
  std::vector<int64_t> pads = ToIntegers(constant);
  if (node.HasInput(3)) return absl::UnimplementedError("it has the input 'axes'");
  if (mode != "constant" || value != 0)
    return absl::UnimplementedError("it pads with other values than 0");
  const bool fits = pads.size() == 8 && pads[0] == 0 && pads[1] == 0 && pads[4] == 0 &&
                    pads[5] == 0 && std::all_of(pads.begin(), pads.end(), IsExtent);
  if (!fits) return Not("pads", pads, "only height and width can be padded, by 0 or more");
  x.padding = {pads[2], pads[3], pads[6], pads[7]};
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

}  // namespace neap::nets::operators
