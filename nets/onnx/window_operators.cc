// Convolutions and poolings.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string>
#include <tuple>
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
#include "neap/nets/onnx/axes/mirrored_pad.h"
#include "neap/nets/onnx/even_window.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

absl::Status Not(const std::string& attribute, const std::vector<int64_t>& values,
                 const std::string& what) {
  return absl::UnimplementedError(
      absl::StrCat("attribute '", attribute, "' is ", absl::StrJoin(values, ", "), "; ", what));
}

// An attribute with a value for each spatial axis of x.
absl::StatusOr<Extents> PerAxis(NodeReader& node, const std::string& name, const neap::Shape& x,
                                int64_t absent) {
  const size_t axes = x.spatial().size();
  const std::vector<int64_t> values = node.Ints(name, std::vector<int64_t>(axes, absent));
  RETURN_IF_ERROR(node.Attributes());
  if (values.size() != axes) return Not(name, values, absl::StrCat(axes, " numbers are needed"));
  return Extents::Of(values);
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
  const size_t axes = x.spatial().size();
  const std::vector<int64_t> pads = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  Padding padding;
  if (automatic == "VALID") return padding;
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const bool upper = automatic == "SAME_UPPER";
    for (size_t i = 0; i < axes; ++i) {
      const int axis = static_cast<int>(i);
      std::tie(padding.before[i], padding.after[i]) =
          SamePadding(x.spatial()[i], window.Reach(axis), window.stride[axis], upper);
    }
    return padding;
  }
  if (automatic != "NOTSET")
    return absl::UnimplementedError(absl::StrCat("attribute 'auto_pad' is ", automatic));
  if (pads.size() != 2 * axes || !std::all_of(pads.begin(), pads.end(), IsExtent))
    return Not("pads", pads, absl::StrCat(2 * axes, " extents from 0 are needed"));
  std::copy_n(pads.begin(), axes, padding.before.begin());
  std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(axes), axes, padding.after.begin());
  return padding;
}

// A pooling or convolution of the image, with the node's attributes.
absl::StatusOr<OnnxWindow> ReadWindow(NodeReader& node, const neap::Shape& x, Extents kernel,
                                      bool ceil_mode) {
  OnnxWindow window = {.kernel = kernel, .ceil_mode = ceil_mode};
  ASSIGN_OR_RETURN(window.stride, PerAxis(node, "strides", x, 1));
  ASSIGN_OR_RETURN(window.dilation, PerAxis(node, "dilations", x, 1));
  const Window shared = {window.kernel, window.stride, 0, window.dilation};
  RETURN_IF_ERROR(CheckWindow(shared, x.spatial_axes()));
  ASSIGN_OR_RETURN(window.padding, ReadPadding(node, shared, x));
  return window;
}

absl::Status NoSuchWindow(const OnnxWindow& window, size_t axes) {
  const auto text = [&](const std::array<int64_t, kMaxSpatialAxes>& side) {
    return absl::StrJoin(absl::MakeConstSpan(side).first(axes), ", ");
  };
  return absl::UnimplementedError(absl::StrCat(
      "its padding is ", text(window.padding.before), " before and ", text(window.padding.after),
      " after the image, which no layer of neap can have"));
}

// The image that the layer reads, and the layer's window.
struct Placed {
  ImageValue x;
  EvenWindow even;
};

// Places a window on an image that may have a Pad before it. The layer has that padding itself if
// it can; otherwise it reads what the Pad computes; otherwise a ZeroPad is added for it.
absl::StatusOr<Placed> PlaceWindow(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                                   const OnnxWindow& window, Outside outside,
                                   const std::vector<Weight>& weights) {
  const auto fit = [&](const ImageValue& image, const Padding& pad, bool may_add_zeros) {
    return FitWindow(image.spec.shape.spatial(), window,
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
  if (!even.has_value()) return NoSuchWindow(window, x.spec.shape.spatial().size());
  ASSIGN_OR_RETURN(ImageValue padded,
                   network.AddExtra(node.proto(), weights, "_pad", even->zeros, {inner}));
  return Placed{std::move(padded), *even};
}

// The part of an image that is left when the padding is taken away.
Crop CropOf(const neap::Shape& image, const Padding& cut) {
  std::vector<int64_t> size(image.spatial().begin(), image.spatial().end());
  for (size_t i = 0; i < size.size(); ++i) size[i] -= cut.before[i] + cut.after[i];
  return {.size = Extents::Of(size),
          .offset = Extents::Of(absl::MakeConstSpan(cut.before).first(size.size()))};
}

// Cuts off what the node's layer computes beside the node's output.
absl::Status CutOff(NodeReader& node, NetworkBuilder& network, const std::vector<Weight>& weights,
                    const Crop& crop) {
  const std::string& output = node.proto().output(0);
  const ImageValue whole = std::get<ImageValue>(*network.Find(output));
  ASSIGN_OR_RETURN(ImageValue part,
                   network.AddExtra(node.proto(), weights, "_crop", crop, {whole}));
  network.Set(output, std::move(part));
  return absl::OkStatus();
}

// The weight of a convolution of x: {.., .., kernel...}.
absl::StatusOr<Weight> ReadKernel(NodeReader& node, const neap::Shape& x) {
  ASSIGN_OR_RETURN(const Weight weight, node.Tensor(1, "weight"));
  const std::vector<int64_t> dims = weight.dims();
  if (dims.size() != x.dims().size()) {
    return absl::UnimplementedError(absl::StrCat("its weight has ", dims.size(),
                                                 " axes; that of a convolution with ",
                                                 x.spatial_axes(), " spatial axes has ", x.rank()));
  }
  const std::vector<int64_t> kernel(dims.begin() + 2, dims.end());
  if (node.Ints("kernel_shape", kernel) == kernel) return weight;
  return absl::InvalidArgumentError("its kernel_shape is not that of its weight");
}

// Kernel and bias.
absl::StatusOr<std::vector<Weight>> ReadWeights(NodeReader& node, const neap::Shape& x) {
  std::vector<Weight> weights(1);
  ASSIGN_OR_RETURN(weights[0], ReadKernel(node, x));
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(weights.emplace_back(), node.Tensor(2, "bias"));
  }
  return weights;
}
Extents KernelOf(const std::vector<int64_t>& weight) {
  return Extents::Of(absl::MakeConstSpan(weight).subspan(2));
}

// Whether the window has more positions in ceil_mode.
bool DependsOnCeil(const neap::Shape& x, const OnnxWindow& window) {
  for (size_t i = 0; i < x.spatial().size(); ++i) {
    const auto positions = [&](bool ceil_mode) {
      const int axis = static_cast<int>(i);
      return Positions(x.spatial()[i], window.Reach(axis), window.stride[axis],
                       window.padding.before[i], window.padding.after[i], ceil_mode);
    };
    if (positions(true) != positions(false)) return true;
  }
  return false;
}

absl::StatusOr<OnnxWindow> ReadPool(NodeReader& node, const ImageValue& x) {
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(const Extents kernel, PerAxis(node, "kernel_shape", x.spec.shape, 0));
  const bool ceil_mode = node.Int("ceil_mode", 0) != 0;
  ASSIGN_OR_RETURN(OnnxWindow window, ReadWindow(node, x.spec.shape, kernel, ceil_mode));
  if (window.dilation.AllAre(1)) window.dilation = 1;  // the default, which texts leave out
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

// The margins that a transposed convolution cuts off from all that its kernel reaches. With
// output_padding it cuts off less at the end.
absl::StatusOr<Padding> ReadCut(NodeReader& node, const neap::Shape& x) {
  ASSIGN_OR_RETURN(Padding cut, ReadPadding(node, {}, x));
  ASSIGN_OR_RETURN(const Extents more, PerAxis(node, "output_padding", x, 0));
  for (size_t i = 0; i < more.values().size(); ++i) {
    const int64_t extra = more.values()[i];
    if (extra < 0 || extra > cut.after[i]) {
      return Not("output_padding", {more.values().begin(), more.values().end()},
                 "it must not be negative or exceed 'pads'");
    }
    cut.after[i] -= extra;
  }
  return cut;
}

// The pads of the spatial axes, of which negative ones take pixels away.
absl::StatusOr<Padding> ReadPads(NodeReader& node, const neap::Shape& x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, node.IntsOrInput("pads", 1));
  const int64_t rank = x.rank();
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (node.HasInput(3)) {
    ASSIGN_OR_RETURN(const Constant some, node.Constant(3));
    axes = ToIntegers(some);
  }
  Padding padding;
  bool fits = pads.size() == 2 * axes.size();
  for (size_t i = 0; fits && i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    const int64_t before = pads[i], after = pads[i + axes.size()];
    fits = axis >= 0 && axis < rank && IsExtent(std::abs(before)) && IsExtent(std::abs(after)) &&
           (axis >= 2 || (before == 0 && after == 0));
    if (!fits || axis < 2) continue;
    padding.before[static_cast<size_t>(axis - 2)] = before;
    padding.after[static_cast<size_t>(axis - 2)] = after;
  }
  if (!fits) return Not("pads", pads, "only spatial axes can be padded");
  return padding;
}

// Whether a Pad adds and takes nothing, in whatever mode.
absl::StatusOr<bool> HasNoPads(NodeReader& node, size_t rank) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, node.IntsOrInput("pads", 1));
  const bool fits = node.HasInput(3) || pads.size() == 2 * rank;
  return fits && std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
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
  padded.padding = PaddingOf(zeros, x.spec.shape.spatial_axes());
  padded.unpadded = x.layer;
  network.Set(output, std::move(padded));
  return absl::OkStatus();
}

}  // namespace

absl::Status Conv(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.PaddedImage(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(std::vector<Weight> weights, ReadWeights(node, x.spec.shape));
  const std::vector<int64_t> dims = weights[0].dims();
  ASSIGN_OR_RETURN(const OnnxWindow whole,
                   ReadWindow(node, x.spec.shape, KernelOf(dims), /*ceil_mode=*/false));
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
  ASSIGN_OR_RETURN(const std::vector<Weight> weights, ReadWeights(node, x.spec.shape));
  const std::vector<int64_t> dims = weights[0].dims();
  ASSIGN_OR_RETURN(const Extents stride, PerAxis(node, "strides", x.spec.shape, 1));
  ASSIGN_OR_RETURN(const Extents dilation, PerAxis(node, "dilations", x.spec.shape, 1));
  if (node.String("auto_pad", "NOTSET") != "NOTSET")
    return absl::UnimplementedError("attribute 'auto_pad'");
  if (node.Int("group", 1) != 1) return absl::UnimplementedError("attribute 'group' is not 1");
  if (!dilation.AllAre(1)) return absl::UnimplementedError("attribute 'dilations' is not 1");
  ASSIGN_OR_RETURN(Padding cut, ReadCut(node, x.spec.shape));
  std::vector<int64_t> padding;
  for (size_t i = 0; i < x.spec.shape.spatial().size(); ++i)
    padding.push_back(std::min(cut.before[i], cut.after[i]));
  const TransposedConvolution layer = {.out_channels = dims[1],
                                       .kernel = KernelOf(dims),
                                       .stride = stride,
                                       .padding = Extents::Of(padding),
                                       .bias = weights.size() > 1};
  RETURN_IF_ERROR(network.AddLayer(node.proto(), layer, {x}, weights));
  if (cut.before == cut.after) return absl::OkStatus();
  const neap::Shape& whole = std::get<ImageValue>(*network.Find(node.proto().output(0))).spec.shape;
  for (size_t i = 0; i < padding.size(); ++i) {
    cut.before[i] -= padding[i];
    cut.after[i] -= padding[i];
  }
  return CutOff(node, network, weights, CropOf(whole, cut));
}

absl::Status MaxPool(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  ASSIGN_OR_RETURN(const OnnxWindow whole, ReadPool(node, x));
  node.Int("storage_order", 0);  // only for the second output
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
      whole.kernel.AllAre(1) && whole.stride.AllAre(1) && whole.padding == Padding{};
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
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  const std::string mode = node.String("mode", "constant");
  const double stated = node.Float("value", 0);  // before opset 11
  ASSIGN_OR_RETURN(const bool changes_nothing, HasNoPads(node, x.rank()));
  if (changes_nothing && !network.written_by_neap()) {  // whatever axes it has
    network.Set(node.proto().output(0), std::move(x));
    return absl::OkStatus();
  }
  if (mode != "constant") return AddMirroredPad(node, network, mode, std::move(x));
  ASSIGN_OR_RETURN(x, node.Image(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  ASSIGN_OR_RETURN(const double value, node.Scalar(2, stated));
  if (value != 0) return absl::UnimplementedError("it pads with other values than 0");
  ASSIGN_OR_RETURN(const Padding pads, ReadPads(node, x.spec.shape));
  Padding zeros, cut;
  for (size_t i = 0; i < zeros.before.size(); ++i) {
    zeros.before[i] = std::max<int64_t>(pads.before[i], 0);
    zeros.after[i] = std::max<int64_t>(pads.after[i], 0);
    cut.before[i] = zeros.before[i] - pads.before[i];
    cut.after[i] = zeros.after[i] - pads.after[i];
  }
  if (cut != Padding{}) {  // negative pads
    const Crop crop = CropOf(x.spec.shape, cut);
    ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, "_crop", crop, {x}));
  }
  return AddZeros(node, network, x, ZerosOf(zeros, x.spec.shape.spatial_axes()));
}

}  // namespace neap::nets::operators
