#include "apps/python/state/layer_state.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/python/errors.h"
#include "neap/core/base/tensor.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/window.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/initial_weights.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap::python {
namespace {

namespace nb = nanobind;

template <typename Value>
nb::object ToPython(const Value& value) {
  return nb::cast(value);
}
nb::object ToPython(const Extents& value) {
  if (value.is_one_number()) return nb::cast(value[0]);
  return nb::tuple(nb::cast(std::vector<int64_t>(value.values().begin(), value.values().end())));
}
nb::object ToPython(const std::optional<Extents>& value) {
  return value.has_value() ? ToPython(*value) : nb::none();
}
nb::object ToPython(const std::optional<WindowBias>& value) {
  if (!value.has_value()) return nb::none();
  return nb::make_tuple(ToPython(value->window), ToPython(value->size), ToPython(value->shift));
}
// Values of enumerations by their names.
nb::object ToPython(Resize::Mode value) { return nb::cast(std::string(Name(value))); }
nb::object ToPython(Resize::Coordinates value) { return nb::cast(std::string(Name(value))); }
nb::object ToPython(Resize::Rounding value) { return nb::cast(std::string(Name(value))); }
nb::object ToPython(const InitialWeights& value) {
  return nb::make_tuple(static_cast<int>(value.weight), value.scale, value.zero_bias);
}
nb::object ToPython(const Gelu::Approximation& value) { return nb::cast(std::string(Name(value))); }
nb::object ToPython(const TensorSpec& value) {
  return nb::make_tuple(std::vector<int64_t>(value.shape.dims().begin(), value.shape.dims().end()),
                        std::string(Name(value.dtype)), std::string(value.layout_name()));
}

template <typename Value>
void Read(nb::handle given, Value& value) {
  value = nb::cast<Value>(given);
}
void Read(nb::handle given, Extents& value) {
  if (nb::isinstance<nb::int_>(given)) {
    value = nb::cast<int64_t>(given);
    return;
  }
  const auto each = nb::cast<std::vector<int64_t>>(given);
  if (each.empty() || each.size() > kMaxSpatialAxes)
    throw nb::type_error("an extent has one to three numbers");
  value = Extents::Of(each);
}
void Read(nb::handle given, std::optional<Extents>& value) {
  value.reset();
  if (!given.is_none()) Read(given, value.emplace(1));
}
void Read(nb::handle given, std::optional<WindowBias>& value) {
  value.reset();
  if (given.is_none()) return;
  WindowBias& bias = value.emplace();
  Read(given[0], bias.window);
  Read(given[1], bias.size);
  Read(given[2], bias.shift);
}
void Read(nb::handle given, Resize::Mode& value) {
  value = Checked(ParseResizeMode(nb::cast<std::string>(given)));
}
void Read(nb::handle given, Resize::Coordinates& value) {
  value = Checked(ParseResizeCoordinates(nb::cast<std::string>(given)));
}
void Read(nb::handle given, Resize::Rounding& value) {
  value = Checked(ParseResizeRounding(nb::cast<std::string>(given)));
}
void Read(nb::handle given, InitialWeights& value) {
  using Rule = InitialWeights::Rule;
  const int rule = nb::cast<int>(given[0]);
  if (rule < 0 || rule > static_cast<int>(Rule::kUniform))
    throw nb::type_error("initial weights have no such rule");
  value = {.weight = static_cast<Rule>(rule),
           .scale = nb::cast<float>(given[1]),
           .zero_bias = nb::cast<bool>(given[2])};
}
void Read(nb::handle given, Gelu::Approximation& value) {
  value = Checked(ParseApproximation(nb::cast<std::string>(given)));
}
void Read(nb::handle given, TensorSpec& value) {
  const auto dims = nb::cast<std::vector<int64_t>>(given[0]);
  if (dims.empty() || dims.size() > 2 + kMaxSpatialAxes)
    throw nb::type_error("a shape has one to five extents");
  value = {.shape = Shape(Shape::Dims(dims.begin(), dims.end())),
           .dtype = Checked(ParseDType(nb::cast<std::string>(given[1]))),
           .layout = Checked(ParseLayout(nb::cast<std::string>(given[2])))};
}

struct Row {
  std::string_view type;
  nb::object (*to)(const Layer& layer);  // None for a layer of another type
  Layer (*from)(const nb::tuple& state);
};

// `kFields` are pointers to all members of the definition.
template <typename Definition, auto... kFields>
constexpr Row RowOf() {
  return {.type = Definition::kType,
          .to = [](const Layer& layer) -> nb::object {
            const auto* const definition = layer.As<Definition>();
            if (definition == nullptr) return nb::none();
            return nb::make_tuple(std::string(Definition::kType),
                                  ToPython(definition->*kFields)...);
          },
          .from = [](const nb::tuple& state) -> Layer {
            if (nb::len(state) != sizeof...(kFields) + 1)
              throw nb::type_error("a layer of this type has another number of fields");
            Definition definition;
            [[maybe_unused]] size_t i = 0;
            (Read(state[++i], definition.*kFields), ...);
            return definition;
          }};
}

constexpr std::array kRows = {
    RowOf<Feed, &Feed::tensor, &Feed::has_network_type>(),
    RowOf<Convolution, &Convolution::out_channels, &Convolution::kernel, &Convolution::stride,
          &Convolution::padding, &Convolution::dilation, &Convolution::groups, &Convolution::bias,
          &Convolution::init>(),
    RowOf<TransposedConvolution, &TransposedConvolution::out_channels,
          &TransposedConvolution::kernel, &TransposedConvolution::stride,
          &TransposedConvolution::padding, &TransposedConvolution::bias,
          &TransposedConvolution::bilinear, &TransposedConvolution::init>(),
    RowOf<FullyConnected, &FullyConnected::out_features, &FullyConnected::bias,
          &FullyConnected::init>(),
    RowOf<BatchNorm, &BatchNorm::epsilon, &BatchNorm::momentum>(),
    RowOf<GroupNorm, &GroupNorm::groups, &GroupNorm::epsilon, &GroupNorm::affine,
          &GroupNorm::bias>(),
    RowOf<InstanceNorm, &InstanceNorm::epsilon, &InstanceNorm::affine, &InstanceNorm::bias>(),
    RowOf<LayerNorm, &LayerNorm::epsilon, &LayerNorm::affine, &LayerNorm::bias>(),
    RowOf<Softmax, &Softmax::axis, &Softmax::logarithm>(),
    RowOf<LocalResponseNorm, &LocalResponseNorm::size, &LocalResponseNorm::alpha,
          &LocalResponseNorm::beta, &LocalResponseNorm::k>(),
    RowOf<Dropout, &Dropout::probability, &Dropout::per_channel>(),
    RowOf<StochasticDepth, &StochasticDepth::rate>(),
    RowOf<MaxPool, &MaxPool::kernel, &MaxPool::stride, &MaxPool::padding, &MaxPool::ceil_mode,
          &MaxPool::dilation>(),
    RowOf<AveragePool, &AveragePool::kernel, &AveragePool::stride, &AveragePool::padding,
          &AveragePool::count_padding, &AveragePool::ceil_mode, &AveragePool::dilation>(),
    RowOf<GlobalAveragePool>(),
    RowOf<AdaptiveAveragePool, &AdaptiveAveragePool::size>(),
    RowOf<Resize, &Resize::sizes, &Resize::scales, &Resize::mode, &Resize::coordinates,
          &Resize::rounding, &Resize::cubic_coefficient>(),
    RowOf<PixelShuffle, &PixelShuffle::factor, &PixelShuffle::blocks_first>(),
    RowOf<PixelUnshuffle, &PixelUnshuffle::factor, &PixelUnshuffle::blocks_first>(),
    RowOf<Reshape, &Reshape::to>(),
    RowOf<Permute, &Permute::axes>(),
    RowOf<WindowPartition, &WindowPartition::window>(),
    RowOf<WindowMerge, &WindowMerge::window, &WindowMerge::size>(),
    RowOf<Roll, &Roll::shift>(),
    RowOf<Tile, &Tile::repeats, &Tile::channels>(),
    RowOf<Crop, &Crop::size, &Crop::offset>(),
    RowOf<ChannelShuffle, &ChannelShuffle::groups>(),
    RowOf<ChannelSlice, &ChannelSlice::first, &ChannelSlice::count>(),
    RowOf<ChannelSplit, &ChannelSplit::channels>(),
    RowOf<ZeroPad, &ZeroPad::top, &ZeroPad::left, &ZeroPad::bottom, &ZeroPad::right,
          &ZeroPad::front, &ZeroPad::back>(),
    RowOf<Relu>(),
    RowOf<LeakyRelu, &LeakyRelu::negative_slope>(),
    RowOf<Clip, &Clip::low, &Clip::high>(),
    RowOf<ScaleShift, &ScaleShift::scale, &ScaleShift::shift, &ScaleShift::learns_scale,
          &ScaleShift::learns_shift>(),
    RowOf<Sigmoid>(),
    RowOf<Tanh>(),
    RowOf<HardSigmoid>(),
    RowOf<HardSwish>(),
    RowOf<Silu>(),
    RowOf<Gelu, &Gelu::approximation>(),
    RowOf<Elu, &Elu::alpha>(),
    RowOf<Softplus, &Softplus::beta, &Softplus::threshold>(),
    RowOf<Mish>(),
    RowOf<Prelu, &Prelu::slopes>(),
    RowOf<Embedding, &Embedding::vocabulary, &Embedding::channels, &Embedding::padding,
          &Embedding::init>(),
    RowOf<PositionEmbedding, &PositionEmbedding::init>(),
    RowOf<PrependToken, &PrependToken::init>(),
    RowOf<Add>(),
    RowOf<Concat>(),
    RowOf<Multiply>(),
    RowOf<Attention, &Attention::heads, &Attention::kv_heads, &Attention::causal, &Attention::scale,
          &Attention::learned_bias, &Attention::rotary_dims, &Attention::rotary_base,
          &Attention::axes, &Attention::window_bias>(),
    RowOf<SoftmaxCrossEntropy, &SoftmaxCrossEntropy::label_smoothing, &SoftmaxCrossEntropy::weight,
          &SoftmaxCrossEntropy::class_weights>(),
    RowOf<LinearCrossEntropy, &LinearCrossEntropy::classes, &LinearCrossEntropy::bias,
          &LinearCrossEntropy::weight, &LinearCrossEntropy::init>(),
    RowOf<MeanSquaredError, &MeanSquaredError::weight>(),
    RowOf<BinaryCrossEntropy, &BinaryCrossEntropy::weight, &BinaryCrossEntropy::positive_weight>(),
    RowOf<FocalLoss, &FocalLoss::alpha, &FocalLoss::gamma, &FocalLoss::weight>(),
    RowOf<DiceLoss, &DiceLoss::background, &DiceLoss::batch, &DiceLoss::smooth,
          &DiceLoss::cross_entropy, &DiceLoss::weight>(),
};

}  // namespace

nb::tuple StateOf(const Layer& layer) {
  for (const Row& row : kRows) {
    nb::object state = row.to(layer);
    if (!state.is_none()) return nb::cast<nb::tuple>(state);
  }
  throw nb::type_error(("a layer of type " + std::string(layer.type()) + " is not copied").c_str());
}

Layer LayerOf(const nb::tuple& state) {
  const auto type = nb::len(state) == 0 ? std::string() : nb::cast<std::string>(state[0]);
  for (const Row& row : kRows) {
    if (row.type == type) return row.from(state);
  }
  throw nb::type_error(("there is no layer of type '" + type.substr(0, 64) + "'").c_str());
}

}  // namespace neap::python
