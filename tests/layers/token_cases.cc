// Cases of the layers of language models (layers/tokens).
#include "absl/strings/str_cat.h"
#include "neap/core/graph/source.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

void CaseList::AddEmbedding(const Embedding& layer, const Shape& ids) {
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    cases_.push_back({.name = absl::StrCat("embedding ", layer.Parameters(), " of ", ids.ToString(),
                                           " ", std::string(Name(layout))),
                      .layer = layer,
                      .inputs = {{.shape = ids, .dtype = DType::kInt32}},
                      .layout = layout});
  }
}

void CaseList::AddTokenLoss(const LinearCrossEntropy& layer, const Shape& x) {
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec labels = {.shape = LabelShape(x), .dtype = DType::kInt32};
    LayerCase layer_case = {.layer = layer, .inputs = {{.shape = x, .layout = layout}, labels}};
    layer_case.name = absl::StrCat("linear_cross_entropy ", layer.Parameters(), " on ",
                                   layer_case.inputs[0].ToString());
    cases_.push_back(std::move(layer_case));
  }
}

void CaseList::Tokens() {
  AddEmbedding({.vocabulary = 1, .channels = 1}, {1, 1});
  AddEmbedding({.vocabulary = 5, .channels = 3}, {2, 7});
  AddEmbedding({.vocabulary = 9, .channels = 8}, {6});
  AddEmbedding({.vocabulary = 11, .channels = 6}, {2, 3, 4});
  AddEmbedding({.vocabulary = 2, .channels = 16}, {2, 150});  // sums over several tiles
  AddEmbedding({.vocabulary = 300, .channels = 260},
               {3, 130});  // two digits, two blocks of channels
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 7}, Shape{3, 8, 16}, Shape{2, 5, 3, 4},
                             Shape{4, 16, 8, 8}, Shape{2, 3, 2, 3, 2}})
    Add("position_embedding", PositionEmbedding{}, {shape});
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 7}, Shape{3, 8, 16}, Shape{2, 5, 300}})
    Add("prepend_token", PrependToken{}, {shape});
  AddTokenLoss({.classes = 1}, {1, 1, 1});
  AddTokenLoss({.classes = 5}, {2, 3, 7});
  AddTokenLoss({.classes = 16, .bias = true}, {3, 8, 16});
  AddTokenLoss({.classes = 7, .weight = 0.3F}, {5, 12, 1, 1});
  AddTokenLoss({.classes = 4, .bias = true}, {2, 6, 3, 5});
  AddTokenLoss({.classes = 11}, {2, 4, 257});  // several chunks, the last of which is smaller
  for (int i = 0; i < kRandomCasesPerLayer / 2; ++i) {
    const Shape x = {dice_.Between(1, 4), dice_.Between(1, 20), dice_.Between(1, 40)};
    AddTokenLoss({.classes = dice_.Between(1, 60), .bias = dice_.Coin()}, x);
    AddEmbedding({.vocabulary = dice_.Between(1, 40), .channels = x.c()}, {x.n(), x.w()});
  }
}

}  // namespace neap::testing
