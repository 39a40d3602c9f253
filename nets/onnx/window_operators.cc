// Convolutions and poolings.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"
#include "neap/core/step/window.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/pooling.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "neap/nets/onnx/even_window.h"
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

bool IsExtent(int64_t value) { return value >= 0 && value <= kMaxWindowExtent; }

// The padding at one axis that auto_pad stands for.
std::pair<int64_t, int64_t> SamePadding(int64_t size, int64_t reach, int64_t stride, bool upper) {
  const int64_t positions = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>(0, (positions - 1) * stride + reach - size);
  const int64_t smaller = total / 2;
  return upper ? std::pair(smaller, total - smaller) : std::pair(total - smaller, smaller);
}

absl::StatusOr<Padding> ReadPadding(NodeReader& node, const Window& window, const neap::Shape& x) {
  const std::string automatic = node.String("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = node.Ints("pads", {0, 0, 0, 0});
  if (automatic == "VALID") return Padding{};
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const bool upper = automatic == "SAME_UPPER";
    const Extent2d reach = window.reach();
    const auto [top, bottom] = SamePadding(x.h(), reach.h, window.stride.h, upper);
    const auto [left, right] = SamePadding(x.w(), reach.w, window.stride.w, upper);
    return Padding{top, left, bottom, right};
  }
  if (automatic != "NOTSET")
    return absl::UnimplementedError(absl::StrCat("attribute 'auto_pad' is ", automatic));
  if (pads.size() != 4 || !std::all_of(pads.begin(), pads.end(), IsExtent))
    return Not("pads", pads, "four extents from 0 are needed");
  return Padding{pads[0], pads[1], pads[2], pads[3]};
}

// A pooling or convolution of the image, with the node's attributes.
absl::StatusOr<OnnxWindow> ReadWindow(NodeReader& node, const neap::Shape& x, Extent2d kernel,
                                      bool ceil_mode) {
  OnnxWindow window = {.kernel = kernel, .ceil_mode = ceil_mode};
  ASSIGN_OR_RETURN(window.stride, Pair(node, "strides", {1, 1}));
  ASSIGN_OR_RETURN(window.dilation, Pair(node, "dilations", {1, 1}));
  const Window shared = {window.kernel, window.stride, 0, window.dilation};
  RETURN_IF_ERROR(CheckWindow(shared));
  ASSIGN_OR_RETURN(window.padding, ReadPadding(node, shared, x));
  return window;
}

absl::Status NoSuchWindow(const OnnxWindow& window) {
  const auto& [top, left, bottom, right] = window.padding;
  return absl::UnimplementedError(
      absl::StrCat("its padding is ", top, ", ", left, " before and ", bottom, ", ", right,
                   " after the image, which no layer of neap can have"));
}

// The image that the layer reads, and the layer's window.
struct Placed {
  ImageValue x;
  EvenWindow even;
};

// Of an image that may have a Pad before it. The layer takes that padding over where it can;
// otherwise it reads what the Pad computes; otherwise a ZeroPad of its own does what it cannot.
absl::StatusOr<Placed> PlaceWindow(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                                   const OnnxWindow& window, Outside outside,
                                   const std::vector<Weight>& weights) {
  const auto fit = [&](const ImageValue& image, const Padding& pad, bool may_add_zeros) {
    const neap::Shape& shape = image.spec.shape;
    return FitWindow({shape.h(), shape.w()}, window,
                     {.outside = outside,
                      .pad = pad,
                      .may_add_zeros = may_add_zeros,
                      .keeps_ceil_mode = network.written_by_neap()});
  };
  const bool takes_over = !x.unpadded.empty() && outside != Outside::kNothing;
  const ImageValue inner = takes_over ? x.Unpadded() : x;
  const Padding pad = takes_over ? x.padding : Padding{};
  if (const auto even = fit(inner, pad, false); even.has_value()) return Placed{inner, *even};
  if (takes_over) {
    if (const auto even = fit(x, {}, false); even.has_value()) return Placed{x, *even};
  }
  const auto even = fit(inner, pad, true);
  if (!even.has_value()) return NoSuchWindow(window);
  ASSIGN_OR_RETURN(ImageValue padded,
                   network.AddExtra(node.proto(), weights, "_pad", even->zeros, inner));
  return Placed{std::move(padded), *even};
}

// Cuts off what the node's layer computes beside the node's output.
absl::Status CutOff(NodeReader& node, NetworkBuilder& network, const std::vector<Weight>& weights,
                    const Crop& crop) {
  const std::string& output = node.proto().output(0);
  const ImageValue whole = std::get<ImageValue>(*network.Find(output));
  ASSIGN_OR_RETURN(ImageValue part, network.AddExtra(node.proto(), weights, "_crop", crop, whole));
  network.Set(output, std::move(part));
  return absl::OkStatus();
}

absl::Status CheckIsImage(const ImageValue& x) {
  if (!x.is_flat) return absl::OkStatus();
  return absl::UnimplementedError("its input is no image but a vector");
}

// The weight of a convolution: {.., .., height, width}.
absl::StatusOr<Weight> ReadKernel(NodeReader& node) {
  ASSIGN_OR_RETURN(const Weight weight, node.Tensor(1, "weight"));
  const std::vector<int64_t> dims = weight.dims();
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

// Whether the window has more positions in ceil_mode.
bool DependsOnCeil(const neap::Shape& x, const OnnxWindow& window) {
  const Padding& padding = window.padding;
  const auto depends = [](int64_t size, int64_t reach, int64_t stride, int64_t before,
                          int64_t after) {
    return Positions(size, reach, stride, before, after, /*ceil_mode=*/true) !=
           Positions(size, reach, stride, before, after, /*ceil_mode=*/false);
  };
  const Extent2d reach = window.reach();
  return depends(x.h(), reach.h, window.stride.h, padding.top, padding.bottom) ||
         depends(x.w(), reach.w, window.stride.w, padding.left, padding.right);
}

absl::StatusOr<OnnxWindow> ReadPool(NodeReader& node, const ImageValue& x) {
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(const Extent2d kernel, Pair(node, "kernel_shape", {}));
  const bool ceil_mode = node.Int("ceil_mode", 0) != 0;
  ASSIGN_OR_RETURN(OnnxWindow window, ReadWindow(node, x.spec.shape, kernel, ceil_mode));
  // ONNX gives poolings with auto_pad the size without ceil_mode, which not all libraries do.
  const bool is_automatic = node.String("auto_pad", "NOTSET") != "NOTSET";
  if (is_automatic && ceil_mode && DependsOnCeil(x.spec.shape, window))
    return absl::UnimplementedError("attribute 'ceil_mode' is 1 beside 'auto_pad'");
  return window;
}

// Adds the pooling, and what is cut off behind it.
absl::Status AddPool(NodeReader& node, NetworkBuilder& network, Layer layer, Placed placed) {
  RETURN_IF_ERROR(network.AddLayer(node.proto(), std::move(layer), {std::move(placed.x)}));
  if (!placed.even.crop.has_value()) return absl::OkStatus();
  return CutOff(node, network, {}, *placed.even.crop);
}

// What a transposed convolution does not have of all that its kernel reaches. With output_padding
// it has more at the end.
absl::StatusOr<Padding> ReadCut(NodeReader& node, const neap::Shape& x) {
  ASSIGN_OR_RETURN(Padding cut, ReadPadding(node, {}, x));
  ASSIGN_OR_RETURN(const Extent2d more, Pair(node, "output_padding", {0, 0}));
  if (more.h < 0 || more.w < 0 || more.h > cut.bottom || more.w > cut.right) {
    return Not("output_padding", {more.h, more.w}, "it must not be negative or exceed 'pads'");
  }
  cut.bottom -= more.h;
  cut.right -= more.w;
  return cut;
}

// The pads of height and width, of which negative ones take pixels away.
absl::StatusOr<Padding> ReadPads(NodeReader& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, node.IntsOrInput("pads", 1));
  std::vector<int64_t> axes = {0, 1, 2, 3};
  if (node.HasInput(3)) {
    ASSIGN_OR_RETURN(const Constant some, node.Constant(3));
    axes = ToIntegers(some);
  }
  int64_t before[4] = {}, after[4] = {};
  bool fits = pads.size() == 2 * axes.size();
  for (size_t i = 0; fits && i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + 4 : axes[i];
    fits = axis >= 0 && axis < 4 && IsExtent(std::abs(pads[i])) &&
           IsExtent(std::abs(pads[i + axes.size()]));
    if (!fits) break;
    before[axis] = pads[i];
    after[axis] = pads[i + axes.size()];
  }
  fits = fits && before[0] == 0 && before[1] == 0 && after[0] == 0 && after[1] == 0;
  if (!fits) return Not("pads", pads, "only height and width can be padded");
  return Padding{before[2], before[3], after[2], after[3]};
}

// The output is the image with zeros around it, which a reader may add itself.
absl::Status AddZeros(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                      const ZeroPad& zeros) {
  const std::string& output = node.proto().output(0);
  if (zeros == ZeroPad{} && !network.written_by_neap()) {
    network.Set(output, x);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(network.AddLayer(node.proto(), zeros, {x}));
  if (network.written_by_neap()) return absl::OkStatus();
  ImageValue padded = std::get<ImageValue>(*network.Find(output));
  padded.padding = {zeros.top, zeros.left, zeros.bottom, zeros.right};
  padded.unpadded = x.layer;
  network.Set(output, std::move(padded));
  return absl::OkStatus();
}

}  // namespace

absl::Status Conv(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.PaddedImage(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(std::vector<Weight> weights, ReadWeights(node));
  const std::vector<int64_t> dims = weights[0].dims();
  ASSIGN_OR_RETURN(const OnnxWindow whole,
                   ReadWindow(node, x.spec.shape, {dims[2], dims[3]}, /*ceil_mode=*/false));
  ASSIGN_OR_RETURN(Placed placed, PlaceWindow(node, network, x, whole, Outside::kZeros, weights));
  const Window& window = placed.even.window;
  const Convolution layer = {.out_channels = dims[0],
                             .kernel = window.kernel,
                             .stride = window.stride,
                             .padding = window.padding,
                             .dilation = window.dilation,
                             .groups = node.Int("group", 1),
                             .bias = weights.size() > 1};
  return network.AddLayer(node.proto(), layer, {std::move(placed.x)}, std::move(weights));
}

absl::Status ConvTranspose(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(const std::vector<Weight> weights, ReadWeights(node));
  const std::vector<int64_t> dims = weights[0].dims();
  ASSIGN_OR_RETURN(const Extent2d stride, Pair(node, "strides", {1, 1}));
  ASSIGN_OR_RETURN(const Extent2d dilation, Pair(node, "dilations", {1, 1}));
  if (node.String("auto_pad", "NOTSET") != "NOTSET")
    return absl::UnimplementedError("attribute 'auto_pad'");
  if (node.Int("group", 1) != 1) return absl::UnimplementedError("attribute 'group' is not 1");
  if (dilation != Extent2d(1)) return absl::UnimplementedError("attribute 'dilations' is not 1");
  ASSIGN_OR_RETURN(const Padding cut, ReadCut(node, x.spec.shape));
  TransposedConvolution layer = {
      .out_channels = dims[1],
      .kernel = {dims[2], dims[3]},
      .stride = stride,
      .padding = {std::min(cut.top, cut.bottom), std::min(cut.left, cut.right)},
      .bias = weights.size() > 1};
  RETURN_IF_ERROR(network.AddLayer(node.proto(), layer, {x}, weights));
  if (cut.top == cut.bottom && cut.left == cut.right) return absl::OkStatus();
  const neap::Shape& whole = std::get<ImageValue>(*network.Find(node.proto().output(0))).spec.shape;
  const Extent2d offset = {cut.top - layer.padding.h, cut.left - layer.padding.w};
  const Extent2d size = {whole.h() - offset.h - (cut.bottom - layer.padding.h),
                         whole.w() - offset.w - (cut.right - layer.padding.w)};
  return CutOff(node, network, weights, {.size = size, .offset = offset});
}

absl::Status MaxPool(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  ASSIGN_OR_RETURN(const OnnxWindow whole, ReadPool(node, x));
  node.Int("storage_order", 0);  // of the second output
  ASSIGN_OR_RETURN(Placed placed, PlaceWindow(node, network, x, whole, Outside::kNothing, {}));
  const neap::MaxPool layer = {.kernel = placed.even.window.kernel,
                               .stride = placed.even.window.stride,
                               .padding = placed.even.window.padding,
                               .ceil_mode = placed.even.ceil_mode,
                               .dilation = placed.even.window.dilation};
  return AddPool(node, network, layer, std::move(placed));
}

absl::Status AveragePool(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.PaddedImage(0));
  ASSIGN_OR_RETURN(const OnnxWindow whole, ReadPool(node, x));
  const bool count_padding = node.Int("count_include_pad", 0) != 0;
  const bool is_identity =
      whole.kernel == Extent2d(1) && whole.stride == Extent2d(1) && whole.padding == Padding{};
  if (is_identity && !network.written_by_neap()) {
    network.Set(node.proto().output(0), x);
    return absl::OkStatus();
  }
  const Outside outside = count_padding ? Outside::kCountedZeros : Outside::kNothing;
  ASSIGN_OR_RETURN(Placed placed, PlaceWindow(node, network, x, whole, outside, {}));
  const neap::AveragePool layer = {.kernel = placed.even.window.kernel,
                                   .stride = placed.even.window.stride,
                                   .padding = placed.even.window.padding,
                                   .count_padding = count_padding,
                                   .ceil_mode = placed.even.ceil_mode,
                                   .dilation = placed.even.window.dilation};
  return AddPool(node, network, layer, std::move(placed));
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
  const double stated = node.Float("value", 0);  // before opset 11
  ASSIGN_OR_RETURN(const double value, node.Scalar(2, stated));
  if (mode != "constant" || value != 0)
    return absl::UnimplementedError("it pads with other values than 0");
  ASSIGN_OR_RETURN(const Padding pads, ReadPads(node));
  const ZeroPad zeros = {.top = std::max<int64_t>(pads.top, 0),
                         .left = std::max<int64_t>(pads.left, 0),
                         .bottom = std::max<int64_t>(pads.bottom, 0),
                         .right = std::max<int64_t>(pads.right, 0)};
  const Padding cut = {zeros.top - pads.top, zeros.left - pads.left, zeros.bottom - pads.bottom,
                       zeros.right - pads.right};
  if (cut != Padding{}) {  // negative pads
    const neap::Shape& shape = x.spec.shape;
    const Crop crop = {.size = {shape.h() - cut.top - cut.bottom, shape.w() - cut.left - cut.right},
                       .offset = {cut.top, cut.left}};
    ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, "_crop", crop, x));
  }
  return AddZeros(node, network, x, zeros);
}

}  // namespace neap::nets::operators
