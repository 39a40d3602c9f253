#include "neap/nets/transformers/vision_transformer.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"

namespace neap::nets {
namespace {

constexpr LayerNorm kVitNorm = {.epsilon = 1e-6F};
constexpr int64_t kVitMlpExpansion = 4;
constexpr InitialWeights kZeros = {
    .weight = InitialWeights::Rule::kNormal, .scale = 0, .zero_bias = true};

// xavier_uniform_ of a linear layer's weight.
InitialWeights Xavier(int64_t in, int64_t out) {
  return {.weight = InitialWeights::Rule::kUniform,
          .scale = std::sqrt(6 / static_cast<float>(in + out)),
          .zero_bias = true};
}

class VitBuilder {
 public:
  explicit VitBuilder(const VisionTransformerOptions& options)
      : options_(options),
        net_({.name = std::string(options.variant.name),
              .batch = options.batch,
              .dtype = options.dtype,
              .layout = options.layout}) {}

  Graph Build() {
    std::string x = AddPatches();
    for (int64_t i = 0; i < options_.variant.blocks; ++i)
      x = AddBlock(absl::StrCat("encoder.layers.encoder_layer_", i), x);
    // The norm is of each position, so only that of the class token is needed.
    x = net_.Add("encoder.class", Crop{}, {x});
    x = net_.Add("encoder.ln", kVitNorm, {x});
    x = net_.Add("heads.head", FullyConnected{.out_features = options_.classes, .init = kZeros},
                 {x});
    net_.Loss(x, SoftmaxCrossEntropy{});
    return net_;
  }

 private:
  int64_t channels() const { return options_.variant.channels; }

  std::string AddPatches() {
    const auto fan_in = static_cast<float>(options_.channels * kVitPatch * kVitPatch);
    const InitialWeights normal = {
        .weight = InitialWeights::Rule::kNormal, .scale = std::sqrt(1 / fan_in), .zero_bias = true};
    std::string x = net_.Input({options_.channels, options_.image, options_.image});
    x = net_.Add(
        "conv_proj",
        Convolution{
            .out_channels = channels(), .kernel = kVitPatch, .stride = kVitPatch, .init = normal},
        {x});
    x = net_.Add("patches", Reshape{.to = {0, -1}}, {x});
    x = net_.Add("tokens", PrependToken{.init = kZeros}, {x});
    net_.StoreAs("tokens.weight", {.name = "class_token", .shape = {1, 1, channels()}});
    x = net_.Add("positions", PositionEmbedding{}, {x});
    const int64_t patches = options_.image / kVitPatch;
    net_.StoreAs("positions.weight", {.name = "encoder.pos_embedding",
                                      .shape = {1, patches * patches + 1, channels()},
                                      .transposed = true});
    return x;
  }

  std::string AddBlock(const std::string& name, const std::string& x) {
    const std::string attention = name + ".self_attention";
    const int64_t inner = kVitMlpExpansion * channels();
    std::string y = net_.Add(name + ".ln_1", kVitNorm, {x});
    // One matrix for query, key and value.
    y = Linear(attention + ".in_proj", y, channels(), 3 * channels(),
               Xavier(channels(), 3 * channels()), "_");
    y = net_.Add(attention, Attention{.heads = options_.variant.heads}, {y});
    y = Linear(attention + ".out_proj", y, channels(), channels(), {.zero_bias = true});
    const std::string middle = net_.Add(attention + ".add", Add{}, {y, x});
    y = net_.Add(name + ".ln_2", kVitNorm, {middle});
    y = Linear(name + ".mlp.0", y, channels(), inner, Xavier(channels(), inner));
    y = net_.Add(name + ".mlp.1", Gelu{}, {y});
    y = Linear(name + ".mlp.3", y, inner, channels(), Xavier(inner, channels()));
    return net_.Add(name + ".mlp.add", Add{}, {y, middle});
  }

  // torch.nn.Linear, with "NAME.weight" or, behind another separator, as MultiheadAttention has it.
  std::string Linear(const std::string& name, const std::string& x, int64_t in, int64_t out,
                     const InitialWeights& init, const std::string& separator = ".") {
    net_.Add(name, Convolution{.out_channels = out, .init = init}, {x});
    const bool is_renamed = separator != ".";
    const auto stored_name = [&](const char* param) {
      return is_renamed ? absl::StrCat(name, separator, param) : "";
    };
    net_.StoreAs(name + ".weight", {.name = stored_name("weight"), .shape = {out, in}});
    if (is_renamed) net_.StoreAs(name + ".bias", {.name = stored_name("bias")});
    return name;
  }

  const VisionTransformerOptions& options_;
  Graph net_;
};

}  // namespace

Graph VisionTransformer(const VisionTransformerOptions& options) {
  return VitBuilder(options).Build();
}

}  // namespace neap::nets
