#include "tests/random_tokens.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "tests/random_layers.h"

namespace neap::testing {
namespace {

class TokenGenerator {
 public:
  TokenGenerator(uint32_t seed, const RandomTokenOptions& options)
      : choices_(seed),
        options_(options),
        net_({.name = absl::StrCat("tokens", seed),
              .batch = options.batch,
              .dtype = options.dtype,
              .layout = options.layout,
              .fusion = options.fusion}) {}

  Graph Build() {
    net_.Input("ids", {options_.positions}, DType::kInt32);
    net_.Input("next", {options_.positions}, DType::kInt32);
    const std::string embedded = Embedded();
    std::string x = embedded;
    if (Chance(2)) x = net_.Add("positions", PositionEmbedding{}, {x});
    const bool has_token = Chance(2);
    if (has_token) x = net_.Add("token", PrependToken{}, {x});
    if (has_token && Chance(2)) x = net_.Add("all_positions", PositionEmbedding{}, {x});
    for (int64_t blocks = Between(1, 3); blocks > 0; --blocks) x = Block(x);
    if (has_token) {
      const Extents size = Extents::Of({options_.positions}), offset = Extents::Of({1});
      x = net_.Add("without_token", Crop{.size = size, .offset = offset}, {x});
    }
    // The embedded ids have several readers, and their gradient is a sum.
    if (Chance(2)) x = net_.Add("skip", Add{}, {x, embedded});
    Finish(x);
    return std::move(net_);
  }

 private:
  int64_t Between(int64_t low, int64_t high) { return choices_.Between(low, high); }
  bool Chance(int64_t one_in) { return choices_.Chance(one_in); }
  std::string Named(const char* kind) { return absl::StrCat(kind, ++count_); }

  // Two tables for the same ids may share their weight.
  std::string Embedded() {
    Embedding table = {.vocabulary = options_.vocabulary, .channels = options_.channels};
    if (Chance(2)) table.padding = Between(0, 3);
    std::string x = net_.Add("table", table, {"ids"});
    if (!Chance(3)) return x;
    const std::string other = net_.Add("other_table", table, {"ids"});
    if (Chance(2)) net_.Share("other_table.weight", "table.weight");
    return net_.Add("both_tables", Add{}, {x, other});
  }

  std::string Linear(int64_t out_channels, const std::string& x) {
    const Convolution layer = {.out_channels = out_channels, .bias = Chance(2)};
    return net_.Add(Named("linear"), layer, {x});
  }

  std::string Block(const std::string& x) {
    // Variances of few values are small, and what differs by rounding must not differ by more.
    std::string y = net_.Add(Named("norm"), LayerNorm{.epsilon = 0.1F}, {x});
    y = Linear(2 * options_.channels, y);
    y = Chance(2) ? net_.Add(Named("gelu"), Gelu{}, {y}) : net_.Add(Named("silu"), Silu{}, {y});
    y = Linear(options_.channels, y);
    if (Chance(3)) y = net_.Add(Named("dropout"), Dropout{.probability = 0.25F}, {y});
    return net_.Add(Named("add"), Add{}, {x, y});
  }

  // A loss for each position, whose weight may be that of the embedding.
  void Finish(const std::string& x) {
    const std::string normed = net_.Add("last_norm", LayerNorm{.epsilon = 0.1F}, {x});
    const int64_t classes = options_.vocabulary;
    const bool is_tied = Chance(2);
    const float weight = static_cast<float>(Between(1, 20)) / 10;
    if (Chance(4)) {
      net_.Add("head", Convolution{.out_channels = classes, .bias = false}, {normed});
      net_.Loss("loss", SoftmaxCrossEntropy{.weight = weight}, {"head", "next"});
      if (is_tied) net_.Share("head.weight", "table.weight");
      return;
    }
    const LinearCrossEntropy loss = {.classes = classes, .bias = Chance(2), .weight = weight};
    net_.Loss("loss", loss, {normed, "next"});
    if (is_tied) net_.Share("loss.weight", "table.weight");
  }

  RandomChoices choices_;
  RandomTokenOptions options_;
  Graph net_;
  int count_ = 0;
};

}  // namespace

Graph RandomTokenGraph(uint32_t seed, const RandomTokenOptions& options) {
  return TokenGenerator(seed, options).Build();
}

}  // namespace neap::testing
