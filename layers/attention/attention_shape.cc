#include "neap/layers/attention/attention_shape.h"

#include <cmath>

namespace neap {
namespace {

using namespace operands;

// The heads behind the first `channel` channels of a tensor.
Heads HeadsOf(const StepSignature& signature, Operand tensor, int64_t channel, int64_t count,
              int64_t dims) {
  const TensorSpec& spec = signature.Spec(tensor);
  const int64_t channels = spec.shape.c(), positions = spec.shape.positions();
  const int64_t sequences = SequencesOf(*signature.layer.As<Attention>(), spec.shape);
  const bool last = spec.layout == Layout::kChannelsLast;
  const int64_t dim_step = last ? 1 : positions;
  return {.tensor = tensor,
          .count = count,
          .dims = dims,
          .first = channel * dim_step,
          .image_step = channels * positions / (last ? sequences : 1),
          .head_step = dims * dim_step,
          .position_step = last ? channels : 1,
          .dim_step = dim_step,
          .sets = last ? 1 : sequences,
          .set_step = last ? 0 : positions / sequences};
}

AttentionBias ParameterBias(const AttentionShape& s) {
  return {.value = Param(0),
          .gradient = ParamGrad(0),
          .head_step = s.queries * s.keys,
          .query_step = s.keys,
          .key_step = 1};
}

WindowPlaces PlacesOf(const WindowBias& bias) {
  WindowPlaces places;
  const int axes = bias.size.axes();
  for (int i = 0; i < axes; ++i) {
    const int at = kMaxSpatialAxes - axes + i;
    places.window[at] = static_cast<int>(bias.window[i]);
    places.shift[at] = static_cast<int>(bias.shift[i]);
    places.grid[at] = static_cast<int>(bias.size[i] / bias.window[i]);
  }
  return places;
}

AttentionBias TableBias(const Attention& layer) {
  return {.value = Param(0),
          .gradient = ParamGrad(0),
          .head_step = 1,
          .key_step = layer.heads,
          .windows = PlacesOf(*layer.window_bias)};
}

AttentionBias InputBias(const StepSignature& signature, int input, int64_t sequences) {
  const TensorSpec& spec = signature.Spec(X(input));
  const Shape& shape = spec.shape;
  const int64_t heads = shape.c(), positions = shape.positions(), pairs = positions / sequences;
  const bool last = spec.layout == Layout::kChannelsLast;
  const int64_t key_step = last ? heads : 1;
  return {.value = X(input),
          .gradient = Dx(input),
          .image_step = heads * (last ? pairs : positions),
          .head_step = heads == 1 ? 0
                       : last     ? 1
                                  : positions,
          .query_step = shape.spatial().back() * key_step,
          .key_step = key_step,
          .sets = last ? 1 : sequences,
          .set_step = last ? 0 : pairs};
}

}  // namespace

int64_t SequencesOf(const Attention& layer, const Shape& shape) {
  if (layer.axes == 0) return 1;
  int64_t sequences = 1;
  for (int axis = 0; axis < shape.spatial_axes() - layer.axes; ++axis)
    sequences *= shape.spatial()[static_cast<size_t>(axis)];
  return sequences;
}

int64_t HeadDimOf(const Attention& layer, const LayerContext& context) {
  const int64_t channels = context.inputs[0].shape.c();
  if (context.inputs.size() >= 3) return channels / layer.heads;
  return channels / (layer.heads + 2 * layer.kv_heads_or_heads());
}

AttentionShape AttentionShapeOf(const StepSignature& signature) {
  const Attention& layer = *signature.layer.As<Attention>();
  const int64_t heads = layer.heads, kv_heads = layer.kv_heads_or_heads();
  const bool is_packed = !signature.Has(X(2));
  LayerContext context;
  for (int i = 0; signature.Has(X(i)); ++i) context.inputs.push_back(signature.Spec(X(i)));
  const int64_t dims = HeadDimOf(layer, context);
  const Operand key = X(is_packed ? 0 : 1), value = X(is_packed ? 0 : 2);
  const int64_t value_dims = is_packed ? dims : signature.Spec(value).shape.c() / kv_heads;
  const Shape& x = signature.Spec(X()).shape;
  const int64_t sequences = SequencesOf(layer, x);
  AttentionShape s = {.images = x.n() * sequences,
                      .queries = x.positions() / sequences,
                      .keys = signature.Spec(key).shape.positions() / sequences,
                      .causal = layer.causal,
                      .scale = layer.scale != 0
                                   ? layer.scale
                                   : static_cast<float>(1 / std::sqrt(static_cast<double>(dims))),
                      .rotary_dims = layer.rotary_dims,
                      .rotary_base = layer.rotary_base,
                      .query = HeadsOf(signature, X(), 0, heads, dims),
                      .key = HeadsOf(signature, key, is_packed ? heads * dims : 0, kv_heads, dims),
                      .value = HeadsOf(signature, value, is_packed ? (heads + kv_heads) * dims : 0,
                                       kv_heads, value_dims),
                      .output = HeadsOf(signature, Y(), 0, heads, value_dims)};
  const int last = is_packed ? 1 : 3;
  if (layer.window_bias.has_value()) {
    s.bias = TableBias(layer);
  } else if (layer.learned_bias) {
    s.bias = ParameterBias(s);
  } else if (signature.Has(X(last))) {
    s.bias = InputBias(signature, last, sequences);
  }
  return s;
}

}  // namespace neap
