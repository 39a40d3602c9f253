// The layers as functions of their fields, with the names and defaults of the C++ structs. Norms,
// losses, and the layers of layers/shape and of tokens have files of their own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/layers/extent.h"
#include "apps/python/state/layer_state.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"
#include "neap/layers/activation.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

// One number for every axis, or one for each.
using Scale = std::variant<double, std::vector<double>>;

std::vector<double> ToScales(const std::optional<Scale>& scale) {
  if (!scale.has_value()) return {};
  const auto* const every = std::get_if<double>(&*scale);
  return every != nullptr ? std::vector<double>{*every} : std::get<std::vector<double>>(*scale);
}

template <typename Definition>
void BindWithoutFields(nb::module_& module, const char* name, const char* text) {
  module.def(
      name, [] { return Layer(Definition{}); }, text);
}

void BindConvolutions(nb::module_& module) {
  module.def(
      "Convolution",
      [](int64_t out_channels, const Extent& kernel, const Extent& stride, const Extent& padding,
         const Extent& dilation, int64_t groups, bool bias) {
        return Layer(Convolution{.out_channels = out_channels,
                                 .kernel = ToExtent(kernel),
                                 .stride = ToExtent(stride),
                                 .padding = ToExtent(padding),
                                 .dilation = ToExtent(dilation),
                                 .groups = groups,
                                 .bias = bias});
      },
      "out_channels"_a, "kernel"_a = 1, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
      "groups"_a = 1, "bias"_a = true,
      "As torch.nn.Conv1d, Conv2d and Conv3d, by the axes of its input.");
  module.def(
      "TransposedConvolution",
      [](int64_t out_channels, const Extent& kernel, const Extent& stride, const Extent& padding,
         bool bias, bool bilinear) {
        return Layer(TransposedConvolution{.out_channels = out_channels,
                                           .kernel = ToExtent(kernel),
                                           .stride = ToExtent(stride),
                                           .padding = ToExtent(padding),
                                           .bias = bias,
                                           .bilinear = bilinear});
      },
      "out_channels"_a, "kernel"_a = 1, "stride"_a = 1, "padding"_a = 0, "bias"_a = true,
      "bilinear"_a = false,
      "As torch.nn.ConvTranspose1d, 2d and 3d. `bilinear` initialises the weight to bilinear "
      "interpolation.");
  module.def(
      "FullyConnected",
      [](int64_t out_features, bool bias) {
        return Layer(FullyConnected{.out_features = out_features, .bias = bias});
      },
      "out_features"_a, "bias"_a = true, "As torch.nn.Linear, on all values of an image.");
}

void BindPools(nb::module_& module) {
  module.def(
      "MaxPool",
      [](const Extent& kernel, const Extent& stride, const Extent& padding, bool ceil_mode,
         const Extent& dilation) {
        return Layer(MaxPool{.kernel = ToExtent(kernel),
                             .stride = ToExtent(stride),
                             .padding = ToExtent(padding),
                             .ceil_mode = ceil_mode,
                             .dilation = ToExtent(dilation)});
      },
      "kernel"_a = 2, "stride"_a = 2, "padding"_a = 0, "ceil_mode"_a = false, "dilation"_a = 1,
      "As torch.nn.MaxPool1d, 2d and 3d.");
  module.def(
      "AveragePool",
      [](const Extent& kernel, const Extent& stride, const Extent& padding, bool count_padding,
         bool ceil_mode, const Extent& dilation) {
        return Layer(AveragePool{.kernel = ToExtent(kernel),
                                 .stride = ToExtent(stride),
                                 .padding = ToExtent(padding),
                                 .count_padding = count_padding,
                                 .ceil_mode = ceil_mode,
                                 .dilation = ToExtent(dilation)});
      },
      "kernel"_a = 2, "stride"_a = 2, "padding"_a = 0, "count_padding"_a = true,
      "ceil_mode"_a = false, "dilation"_a = 1,
      "As torch.nn.AvgPool1d, 2d and 3d, with the dilation of torch.nn.MaxPool2d.");
  module.def(
      "Crop",
      [](const Extent& size, const Extent& offset) {
        return Layer(Crop{.size = ToExtent(size), .offset = ToExtent(offset)});
      },
      "size"_a, "offset"_a = 0,
      "The rectangle of `size` from row and column `offset` on, or such a part of a sequence or "
      "volume.");
  module.def(
      "ChannelShuffle", [](int64_t groups) { return Layer(ChannelShuffle{.groups = groups}); },
      "groups"_a, "As torch.nn.ChannelShuffle.");
  module.def(
      "ChannelSlice",
      [](int64_t first, int64_t count) {
        return Layer(ChannelSlice{.first = first, .count = count});
      },
      "first"_a, "count"_a, "Channels [first, first + count) of each image.");
  module.def(
      "ChannelSplit",
      [](std::vector<int64_t> channels) {
        return Layer(ChannelSplit{.channels = std::move(channels)});
      },
      "channels"_a,
      "As torch.split along the channels: an output for each number of channels. Graph.add() "
      "returns the name of the first, NAME; the others are 'NAME:1', 'NAME:2' and so on.");
  module.def(
      "ZeroPad",
      [](int64_t top, int64_t left, int64_t bottom, int64_t right, int64_t front, int64_t back) {
        return Layer(ZeroPad{.top = top,
                             .left = left,
                             .bottom = bottom,
                             .right = right,
                             .front = front,
                             .back = back});
      },
      "top"_a = 0, "left"_a = 0, "bottom"_a = 0, "right"_a = 0, "front"_a = 0, "back"_a = 0,
      "Zeros on each side, as torch.nn.ZeroPad2d; sequences have a left and a right side, volumes "
      "also a front and a back.");
}

void BindResizes(nb::module_& module) {
  const Resize usual;
  module.def(
      "Resize",
      [](const std::optional<Extent>& sizes, const std::optional<Scale>& scales,
         const std::string& mode, const std::string& coordinates, const std::string& rounding,
         float cubic_coefficient) {
        Resize resize = {.scales = ToScales(scales),
                         .mode = Checked(ParseResizeMode(mode)),
                         .coordinates = Checked(ParseResizeCoordinates(coordinates)),
                         .rounding = Checked(ParseResizeRounding(rounding)),
                         .cubic_coefficient = cubic_coefficient};
        if (sizes.has_value()) resize.sizes = ToExtent(*sizes);
        return Layer(resize);
      },
      "sizes"_a = nb::none(), "scales"_a = nb::none(), "mode"_a = std::string(Name(usual.mode)),
      "coordinates"_a = std::string(Name(usual.coordinates)),
      "rounding"_a = std::string(Name(usual.rounding)),
      "cubic_coefficient"_a = usual.cubic_coefficient,
      "As torch.nn.Upsample, to `sizes` or by `scales`. Modes are 'nearest', 'linear' and 'cubic', "
      "coordinates 'half_pixel', 'align_corners' and 'asymmetric', roundings of 'nearest' 'floor', "
      "'ceil', 'prefer_floor' and 'prefer_ceil'. By default torch's 'nearest-exact'; its 'nearest' "
      "is 'asymmetric' and 'floor'.");
  module.def(
      "AdaptiveAveragePool",
      [](const Extent& size) {
        const Extents windows = ToExtent(size);
        return windows.AllAre(1) ? Layer(GlobalAveragePool{})
                                 : Layer(AdaptiveAveragePool{.size = windows});
      },
      "size"_a,
      "As torch.nn.AdaptiveAvgPool1d, 2d and 3d. One window along every axis is a "
      "GlobalAveragePool.");
  module.def(
      "PixelShuffle",
      [](int64_t factor, bool blocks_first) {
        return Layer(PixelShuffle{.factor = factor, .blocks_first = blocks_first});
      },
      "factor"_a = PixelShuffle{}.factor, "blocks_first"_a = false,
      "As torch.nn.PixelShuffle: channels become blocks of pixels. With `blocks_first`, those of "
      "one pixel of the blocks are neighbours, as in ONNX's DepthToSpace with mode DCR.");
  module.def(
      "PixelUnshuffle",
      [](int64_t factor, bool blocks_first) {
        return Layer(PixelUnshuffle{.factor = factor, .blocks_first = blocks_first});
      },
      "factor"_a = PixelUnshuffle{}.factor, "blocks_first"_a = false,
      "As torch.nn.PixelUnshuffle, the inverse of PixelShuffle.");
}

void BindActivations(nb::module_& module) {
  module.def(
      "LeakyRelu",
      [](float negative_slope) { return Layer(LeakyRelu{.negative_slope = negative_slope}); },
      "negative_slope"_a = LeakyRelu{}.negative_slope, "As torch.nn.LeakyReLU.");
  module.def(
      "Clip", [](float low, float high) { return Layer(Clip{.low = low, .high = high}); },
      "low"_a = Clip{}.low, "high"_a = Clip{}.high,
      "As torch.nn.Hardtanh; by default torch.nn.ReLU6.");
  module.def(
      "Gelu",
      [](const std::string& approximation) {
        return Layer(Gelu{.approximation = Checked(ParseApproximation(approximation))});
      },
      "approximation"_a = "none", "As torch.nn.GELU, exact or approximated by 'tanh'.");
  module.def(
      "Elu", [](float alpha) { return Layer(Elu{.alpha = alpha}); }, "alpha"_a = Elu{}.alpha,
      "As torch.nn.ELU; `alpha` is not negative.");
  module.def(
      "Softplus",
      [](float beta, float threshold) {
        return Layer(Softplus{.beta = beta, .threshold = threshold});
      },
      "beta"_a = Softplus{}.beta, "threshold"_a = Softplus{}.threshold, "As torch.nn.Softplus.");
  module.def(
      "Prelu", [](int64_t slopes) { return Layer(Prelu{.slopes = slopes}); },
      "slopes"_a = Prelu{}.slopes,
      "As torch.nn.PReLU, with one slope or one for each channel, which training changes.");
  module.def(
      "ScaleShift",
      [](float scale, float shift, bool learns_scale, bool learns_shift) {
        return Layer(ScaleShift{.scale = scale,
                                .shift = shift,
                                .learns_scale = learns_scale,
                                .learns_shift = learns_shift});
      },
      "scale"_a = 1.0F, "shift"_a = 0.0F, "learns_scale"_a = false, "learns_shift"_a = false,
      "scale * x + shift, with numbers that training does not change, or with one for each channel "
      "that begins so and is learned: ConvNeXt's layer scale.");
  BindWithoutFields<Relu>(module, "Relu", "As torch.nn.ReLU.");
  BindWithoutFields<Sigmoid>(module, "Sigmoid", "As torch.nn.Sigmoid.");
  BindWithoutFields<Tanh>(module, "Tanh", "As torch.nn.Tanh.");
  BindWithoutFields<HardSigmoid>(module, "HardSigmoid", "As torch.nn.Hardsigmoid.");
  BindWithoutFields<HardSwish>(module, "HardSwish", "As torch.nn.Hardswish.");
  BindWithoutFields<Silu>(module, "Silu", "As torch.nn.SiLU.");
  BindWithoutFields<Mish>(module, "Mish", "As torch.nn.Mish.");
}

std::string ToText(const Layer& layer) {
  const std::string parameters = layer.Parameters();
  return absl::StrCat("<neap.Layer ", std::string(layer.type()), parameters.empty() ? "" : " ",
                      parameters, ">");
}

}  // namespace

void BindLayers(nb::module_& module) {
  nb::class_<Layer>(module, "Layer", "The definition of a layer, for Graph.add().")
      .def_prop_ro(
          "type", [](const Layer& layer) { return std::string(layer.type()); },
          "What kind of layer it is: 'convolution', for example.")
      .def("__getstate__", [](const Layer& layer) { return StateOf(layer); })
      .def("__setstate__",
           [](Layer* layer, const nb::tuple& state) { new (layer) Layer(LayerOf(state)); })
      .def(
          "__eq__", [](const Layer& a, const Layer& b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const Layer& layer) { return nb::hash(nb::cast(ToText(layer))); })
      .def("__repr__", ToText);
  BindConvolutions(module);
  BindPools(module);
  BindResizes(module);
  BindActivations(module);
  BindWithoutFields<GlobalAveragePool>(module, "GlobalAveragePool",
                                       "As torch.nn.AdaptiveAvgPool2d(1), over all spatial axes.");
  BindWithoutFields<Add>(
      module, "Add",
      "The sum of two or more tensors of one shape, or of one and a second one with a "
      "value for each image and channel.");
  BindWithoutFields<Multiply>(module, "Multiply",
                              "The product of a tensor and another of its shape, or with one "
                              "value for each channel.");
  BindWithoutFields<Concat>(module, "Concat", "Two or more tensors along the channels.");
}

}  // namespace neap::python
