#include "neap/layers/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/attention/attention_shape.h"
#include "neap/layers/shape/windows.h"

namespace neap {
namespace {

using namespace operands;

absl::Status Bad(const std::string& text) { return absl::InvalidArgumentError(text); }

absl::Status CheckFields(const Attention& layer) {
  if (layer.heads <= 0) return Bad(absl::StrCat("heads ", layer.heads, " must be positive"));
  if (layer.kv_heads < 0 || layer.heads % layer.kv_heads_or_heads() != 0) {
    return Bad(absl::StrCat("kv_heads ", layer.kv_heads, " must divide heads ", layer.heads));
  }
  if (!(layer.scale >= 0 && std::isfinite(layer.scale)))
    return Bad(absl::StrCat("scale ", layer.scale, " must not be negative"));
  if (layer.axes < 0) return Bad(absl::StrCat("axes ", layer.axes, " must not be negative"));
  if (layer.rotary_dims < 0 || layer.rotary_dims % 2 != 0)
    return Bad(absl::StrCat("rotary_dims ", layer.rotary_dims, " must be even"));
  if (layer.rotary_base > 0 && std::isfinite(layer.rotary_base)) return absl::OkStatus();
  return Bad(absl::StrCat("rotary_base ", layer.rotary_base, " must be positive"));
}

// The number of inputs without a bias.
size_t CountOfTensors(const LayerContext& context) { return context.inputs.size() < 3 ? 1 : 3; }

bool HasParameter(const Attention& layer) {
  return layer.learned_bias || layer.window_bias.has_value();
}

absl::Status CheckCount(const Attention& layer, const LayerContext& context) {
  const size_t count = context.inputs.size();
  if (count < 1 || count > 4) {
    return Bad(absl::StrCat(
        "takes query, key and value, or one tensor that has all three, and a bias, got ", count,
        " inputs"));
  }
  if (HasParameter(layer) && count != CountOfTensors(context))
    return Bad("has a learned bias, and takes no other");
  if (layer.learned_bias && layer.window_bias.has_value())
    return Bad("has a bias of windows, and learned_bias, too");
  return CheckSpatialInputs(context, count);
}

absl::Status CheckAgree(const LayerContext& context) {
  const TensorSpec& first = context.inputs[0];
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    const TensorSpec& input = context.inputs[i];
    if (input.dtype == first.dtype && input.layout == first.layout &&
        input.shape.n() == first.shape.n()) {
      continue;
    }
    return Bad(absl::StrCat("input ", i, " is ", input.ToString(), ", input 0 is ",
                            first.ToString(), ": batch, dtype and layout must agree"));
  }
  return absl::OkStatus();
}

// Whether the channels are `heads` heads, an error if not.
absl::Status CheckHeads(const char* name, const TensorSpec& tensor, int64_t heads) {
  if (tensor.shape.c() % heads == 0) return absl::OkStatus();
  return Bad(absl::StrCat(name, " ", tensor.ToString(), ": its channels are no ", heads, " heads"));
}

absl::Status CheckTensors(const Attention& layer, const LayerContext& context) {
  const TensorSpec& x = context.inputs[0];
  const int64_t kv_heads = layer.kv_heads_or_heads();
  if (CountOfTensors(context) == 1)
    return CheckHeads("query, key and value", x, layer.heads + 2 * kv_heads);
  RETURN_IF_ERROR(CheckHeads("query", x, layer.heads));
  const TensorSpec& key = context.inputs[1];
  const TensorSpec& value = context.inputs[2];
  RETURN_IF_ERROR(CheckHeads("key", key, kv_heads));
  RETURN_IF_ERROR(CheckHeads("value", value, kv_heads));
  const int64_t dims = HeadDimOf(layer, context);
  if (key.shape.c() / kv_heads != dims) {
    return Bad(absl::StrCat("key ", key.ToString(), " has ", key.shape.c() / kv_heads,
                            " dimensions in a head, the query ", x.ToString(), " has ", dims));
  }
  if (key.shape.spatial() == value.shape.spatial()) return absl::OkStatus();
  return Bad(absl::StrCat("key ", key.ToString(), " and value ", value.ToString(),
                          " have other positions"));
}

// Whether the tensors have the sequences of the query.
absl::Status CheckSequences(const Attention& layer, const LayerContext& context) {
  const Shape& x = context.inputs[0].shape;
  const Shape& key = context.inputs[CountOfTensors(context) == 1 ? 0 : 1].shape;
  for (const Shape* shape : {&x, &key}) {
    if (layer.axes <= shape->spatial_axes()) continue;
    return Bad(absl::StrCat("axes ", layer.axes, ", but a tensor has the spatial axes of ",
                            shape->ToString()));
  }
  if (SequencesOf(layer, x) == SequencesOf(layer, key)) return absl::OkStatus();
  return Bad(absl::StrCat("the query has ", SequencesOf(layer, x), " sequences, the key has ",
                          SequencesOf(layer, key)));
}

// Of a sequence of the query, and of the key.
int64_t QueriesOfInputs(const Attention& layer, const LayerContext& context) {
  const Shape& x = context.inputs[0].shape;
  return x.positions() / SequencesOf(layer, x);
}
int64_t KeysOfInputs(const Attention& layer, const LayerContext& context) {
  const Shape& key = context.inputs[CountOfTensors(context) == 1 ? 0 : 1].shape;
  return key.positions() / SequencesOf(layer, key);
}

absl::Status CheckBias(const Attention& layer, const LayerContext& context) {
  const size_t at = CountOfTensors(context);
  if (context.inputs.size() == at) return absl::OkStatus();
  const TensorSpec& x = context.inputs[0];
  const Shape& bias = context.inputs[at].shape;
  const int64_t sequences = SequencesOf(layer, x.shape);
  std::vector<int64_t> pairs = {QueriesOfInputs(layer, context), KeysOfInputs(layer, context)};
  if (sequences != 1) pairs.insert(pairs.begin(), sequences);
  const Shape wanted = SpatialShape(x.shape.n(), layer.heads, pairs);
  if (bias == wanted || bias == SpatialShape(x.shape.n(), 1, pairs)) return absl::OkStatus();
  return Bad(absl::StrCat("the bias is ", context.inputs[at].ToString(), ", expected ",
                          wanted.ToString(), ", or with one head"));
}

// Whether the sequences are the windows of the image, and the positions those of a window.
absl::Status CheckWindowBias(const Attention& layer, const LayerContext& context) {
  if (!layer.window_bias.has_value()) return absl::OkStatus();
  const auto& [window, size, shift] = *layer.window_bias;
  const Extents image = size.is_one_number() ? size.Along(2) : size;
  RETURN_IF_ERROR(CheckSuits("shift", shift, image.axes()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> windows, WindowsOf(window, image.values()));
  for (int i = 0; i < image.axes(); ++i) {
    if (shift[i] >= 0 && shift[i] < window[i]) continue;
    return Bad(absl::StrCat("shift ", shift.ToString(), " must be from 0 to less than the window ",
                            window.ToString()));
  }
  const TensorSpec& x = context.inputs[0];
  const int64_t queries = QueriesOfInputs(layer, context), keys = KeysOfInputs(layer, context);
  if (SequencesOf(layer, x.shape) == windows[0] && queries == windows[1] && keys == windows[1])
    return absl::OkStatus();
  return Bad(absl::StrCat("input 0 is ", x.ToString(), ", but ", image.ToString(), " has ",
                          windows[0], " windows of ", windows[1], " positions"));
}

// The pairs of positions in a window with other distances.
int64_t OffsetsOf(const WindowBias& bias) {
  int64_t offsets = 1;
  for (int i = 0; i < bias.size.axes(); ++i) offsets *= 2 * bias.window[i] - 1;
  return offsets;
}

ParamSpec ParameterOf(const Attention& layer, int64_t queries, int64_t keys) {
  constexpr float kTableDeviation = 0.02F;
  if (!layer.window_bias.has_value())
    return {"bias", {.shape = {layer.heads, queries, keys}}, {Init::Kind::kConstant, 0}};
  return {"relative_position_bias_table",
          {.shape = {OffsetsOf(*layer.window_bias), layer.heads}},
          {Init::Kind::kNormal, kTableDeviation}};
}

absl::Status CheckRotary(const Attention& layer, const LayerContext& context) {
  const int64_t dims = HeadDimOf(layer, context);
  if (layer.rotary_dims <= dims) return absl::OkStatus();
  return Bad(absl::StrCat("rotary_dims ", layer.rotary_dims, " is more than the ", dims,
                          " dimensions of a head"));
}

// How many pairs of a query and a key position have a score.
double PairsOf(const Attention& layer, int64_t queries, int64_t keys) {
  if (!layer.causal) return Product({queries, keys});
  const int64_t both = std::min(queries, keys);
  return Product({both, both + 1}) / 2 + Product({queries - both, keys});
}

int64_t ValueDimOf(const Attention& layer, const LayerContext& context) {
  if (CountOfTensors(context) == 1) return HeadDimOf(layer, context);
  return context.inputs[2].shape.c() / layer.kv_heads_or_heads();
}

std::vector<Operand> ForwardReads(const Attention& layer, const LayerContext& context) {
  std::vector<Operand> reads;
  for (size_t i = 0; i < context.inputs.size(); ++i) reads.push_back(X(static_cast<int>(i)));
  if (HasParameter(layer)) reads.push_back(Param(0));
  return reads;
}

StepSpec Backward(const Attention& layer, const LayerContext& context) {
  StepSpec backward = {.phase = Phase::kBackwardData, .reads = ForwardReads(layer, context)};
  backward.reads.insert(backward.reads.end(), {Y(), Dy(), Saved(0)});
  for (size_t i = 0; i < context.inputs.size(); ++i)
    backward.writes.push_back(Dx(static_cast<int>(i)));
  if (context.inputs.size() != CountOfTensors(context))
    backward.optional_writes = {backward.writes.back()};
  if (HasParameter(layer)) {
    backward.writes.push_back(ParamGrad(0));
    backward.accumulates_natively = {Slot::kParamGrad};
  }
  return backward;
}

}  // namespace

std::string Attention::Parameters() const {
  const std::string text = ParameterText({{"heads", heads},
                                          {"kv_heads", kv_heads},
                                          {"causal", causal},
                                          {"scale", scale},
                                          {"learned_bias", learned_bias},
                                          {"rotary_dims", rotary_dims},
                                          {"rotary_base", rotary_base},
                                          {"axes", axes}});
  if (!window_bias.has_value()) return text;
  return absl::StrCat(text, " ",
                      ParameterText({{"window", window_bias->window},
                                     {"size", window_bias->size},
                                     {"shift", window_bias->shift}}));
}

absl::StatusOr<LayerSpec> Attention::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckFields(*this));
  RETURN_IF_ERROR(CheckCount(*this, context));
  RETURN_IF_ERROR(CheckAgree(context));
  RETURN_IF_ERROR(CheckTensors(*this, context));
  RETURN_IF_ERROR(CheckSequences(*this, context));
  RETURN_IF_ERROR(CheckBias(*this, context));
  RETURN_IF_ERROR(CheckWindowBias(*this, context));
  RETURN_IF_ERROR(CheckRotary(*this, context));
  const TensorSpec& x = context.inputs[0];
  const int64_t sequences = SequencesOf(*this, x.shape);
  const int64_t queries = QueriesOfInputs(*this, context), keys = KeysOfInputs(*this, context);
  const int64_t dims = HeadDimOf(*this, context), value_dims = ValueDimOf(*this, context);
  LayerSpec spec = {
      .output = WithShape(x, SpatialShape(x.shape.n(), heads * value_dims, x.shape.spatial())),
      .traits = {.checkpoint = true, .hides_transfers = true, .independent_images = true}};
  // Forward has a product of as many multiply-adds as pairs and dimensions for S, and one for y.
  const double pairs = PairsOf(*this, queries, keys) * Product({x.shape.n(), sequences, heads});
  const double of_query = 2 * pairs * static_cast<double>(dims);
  const double of_value = 2 * pairs * static_cast<double>(value_dims);
  if (HasParameter(*this)) spec.params = {ParameterOf(*this, queries, keys)};
  spec.steps = {
      {.reads = ForwardReads(*this, context), .writes = {Y()}, .flops = of_query + of_value}};
  if (context.mode == Mode::kInference) return spec;
  spec.saved = {{"lse", {.shape = {x.shape.n(), sequences * heads, queries}}}};
  spec.steps[0].writes.push_back(Saved(0));
  spec.steps.push_back(Backward(*this, context));
  spec.steps[1].flops = 3 * of_query + 2 * of_value;
  return spec;
}

}  // namespace neap
