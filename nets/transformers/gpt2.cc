#include "neap/nets/transformers/gpt2.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"

namespace neap::nets {
namespace {

constexpr float kDeviation = 0.02F;
constexpr int64_t kMlpExpansion = 4;  // the inner channels are so many times those of a block

class Gpt2Builder {
 public:
  explicit Gpt2Builder(const Gpt2Options& options)
      : options_(options),
        net_({.name = std::string(options.variant.name),
              .batch = options.batch,
              .dtype = options.dtype,
              .layout = options.layout,
              .other_files = {.prefix = "transformer.",
                              .ignored = {".attn.bias", ".attn.masked_bias"}}}) {}

  Graph Build() {
    std::string x = Embed();
    for (int64_t i = 0; i < options_.variant.blocks; ++i) x = AddBlock(absl::StrCat("h.", i), x);
    x = net_.Add("ln_f", LayerNorm{}, {x});
    net_.Input("labels", {options_.tokens}, DType::kInt32);
    net_.Loss("lm_head", LinearCrossEntropy{.classes = options_.vocabulary}, {x, "labels"});
    net_.Share("lm_head.weight", "wte.weight");
    return net_;
  }

 private:
  int64_t channels() const { return options_.variant.channels; }

  std::string Embed() {
    net_.Input("input", {options_.tokens}, DType::kInt32);
    const InitialWeights normal = {.weight = InitialWeights::Rule::kNormal, .scale = kDeviation};
    std::string x = net_.Add(
        "wte", Embedding{.vocabulary = options_.vocabulary, .channels = channels(), .init = normal},
        {"input"});
    x = net_.Add("wpe", PositionEmbedding{.init = normal}, {x});
    net_.StoreAs("wpe.weight", {.shape = {options_.tokens, channels()}, .transposed = true});
    return Dropped("drop", x);
  }

  std::string AddBlock(const std::string& name, const std::string& x) {
    std::string y = net_.Add(name + ".ln_1", LayerNorm{}, {x});
    y = Linear(name + ".attn.c_attn", y, channels(), 3 * channels(), kDeviation);
    y = net_.Add(name + ".attn", Attention{.heads = options_.variant.heads, .causal = true}, {y});
    y = Linear(name + ".attn.c_proj", y, channels(), channels(), residual_deviation());
    y = Dropped(name + ".attn.resid_dropout", y);
    const std::string middle = net_.Add(name + ".attn.add", Add{}, {y, x});
    y = net_.Add(name + ".ln_2", LayerNorm{}, {middle});
    const int64_t inner = kMlpExpansion * channels();
    y = Linear(name + ".mlp.c_fc", y, channels(), inner, kDeviation);
    y = net_.Add(name + ".mlp.act", Gelu{.approximation = Gelu::Approximation::kTanh}, {y});
    y = Linear(name + ".mlp.c_proj", y, inner, channels(), residual_deviation());
    y = Dropped(name + ".mlp.dropout", y);
    return net_.Add(name + ".mlp.add", Add{}, {y, middle});
  }

  float residual_deviation() const {
    return kDeviation / std::sqrt(2 * static_cast<float>(options_.variant.blocks));
  }

  // Hugging Face's Conv1D, whose weight is {in, out}.
  std::string Linear(const std::string& name, const std::string& x, int64_t in, int64_t out,
                     float deviation) {
    const InitialWeights init = {
        .weight = InitialWeights::Rule::kNormal, .scale = deviation, .zero_bias = true};
    net_.Add(name, Convolution{.out_channels = out, .init = init}, {x});
    net_.StoreAs(name + ".weight", {.shape = {in, out}, .transposed = true});
    return name;
  }

  std::string Dropped(const std::string& name, const std::string& x) {
    return options_.dropout > 0 ? net_.Add(name, Dropout{.probability = options_.dropout}, {x}) : x;
  }

  const Gpt2Options& options_;
  Graph net_;
};

}  // namespace

Graph Gpt2(const Gpt2Options& options) { return Gpt2Builder(options).Build(); }

}  // namespace neap::nets
