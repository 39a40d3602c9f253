// The layers of language models, and of vision transformers, as functions of their fields.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "apps/python/bindings.h"
#include "apps/python/layers/extent.h"
#include "neap/core/step/layer.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/initial_weights.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

InitialWeights NormalWith(float deviation) {
  return {.weight = InitialWeights::Rule::kNormal, .scale = deviation};
}

template <typename Definition>
void BindLearnedVectors(nb::module_& module, const char* name, const char* text) {
  module.def(
      name, [](float deviation) { return Layer(Definition{.init = NormalWith(deviation)}); },
      "deviation"_a = Definition{}.init.scale, text);
}

std::optional<WindowBias> WindowBiasOf(const std::optional<Extent>& window,
                                       const std::optional<Extent>& size, const Extent& shift) {
  if (window.has_value() != size.has_value())
    throw nb::type_error("an attention of windows takes their window and the image's size");
  if (!window.has_value()) return std::nullopt;
  return WindowBias{.window = ToExtent(*window), .size = ToExtent(*size), .shift = ToExtent(shift)};
}

void BindAttention(nb::module_& module) {
  const Attention usual;
  module.def(
      "Attention",
      [](int64_t heads, int64_t kv_heads, bool causal, float scale, bool learned_bias,
         int64_t rotary_dims, float rotary_base, int64_t axes, const std::optional<Extent>& window,
         const std::optional<Extent>& size, const Extent& shift) {
        return Layer(Attention{.heads = heads,
                               .kv_heads = kv_heads,
                               .causal = causal,
                               .scale = scale,
                               .learned_bias = learned_bias,
                               .rotary_dims = rotary_dims,
                               .rotary_base = rotary_base,
                               .axes = axes,
                               .window_bias = WindowBiasOf(window, size, shift)});
      },
      "heads"_a, "kv_heads"_a = usual.kv_heads, "causal"_a = usual.causal, "scale"_a = usual.scale,
      "learned_bias"_a = usual.learned_bias, "rotary_dims"_a = usual.rotary_dims,
      "rotary_base"_a = usual.rotary_base, "axes"_a = usual.axes, "window"_a = nb::none(),
      "size"_a = nb::none(), "shift"_a = 0,
      "As torch.nn.functional.scaled_dot_product_attention, of query, key and value, or of one "
      "tensor with all three in its channels, and of a bias, if there is one; along the last "
      "`axes` "
      "spatial axes, or all. With `window`, as in torchvision's ShiftedWindowAttention: a learned "
      "bias of the offsets in a window of an image of `size`, which has been rolled by -`shift`.");
}

}  // namespace

void BindTokenLayers(nb::module_& module) {
  BindAttention(module);
  module.def(
      "Embedding",
      [](int64_t vocabulary, int64_t channels, std::optional<int64_t> padding, float deviation) {
        return Layer(Embedding{.vocabulary = vocabulary,
                               .channels = channels,
                               .padding = padding,
                               .init = NormalWith(deviation)});
      },
      "vocabulary"_a, "channels"_a, "padding"_a = nb::none(),
      "deviation"_a = Embedding{}.init.scale,
      "As torch.nn.Embedding, of an input of int32 ids {T}; its output is {channels, T}. The row "
      "of "
      "the id `padding` is not trained. Weights begin with the standard deviation `deviation`.");
  BindLearnedVectors<PositionEmbedding>(
      module, "PositionEmbedding",
      "Adds a vector for each position, which training changes and all examples have.");
  BindLearnedVectors<PrependToken>(module, "PrependToken",
                                   "Puts a vector that training changes before the first position "
                                   "of a sequence: the class token "
                                   "of a vision transformer.");
  module.def(
      "LinearCrossEntropy",
      [](int64_t classes, bool bias, float weight) {
        return Layer(LinearCrossEntropy{.classes = classes, .bias = bias, .weight = weight});
      },
      "classes"_a, "bias"_a = false, "weight"_a = 1.0F,
      "The last linear layer and SoftmaxCrossEntropy in one, for Graph.add_loss(): the logits "
      "never "
      "exist as a whole.");
}

}  // namespace neap::python
