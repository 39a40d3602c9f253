// Embedding: a learned vector for each id, as torch.nn.Embedding.
//
//   step             reads        writes
//   forward          ids, weight  y
//   backward_params  ids, dy      dweight
//
// inputs: 0 ids int32 {N, T}, a feed for example; {N, H, W} or {N, D, H, W} as well, or {N} for one
// id each. y {N, channels, T} has the type and the layout of the network (LayerContext), so a
// channels-last sequence is the (N, T, C) of transformers; for {N} it is {N, channels, 1, 1}.
//
// dweight has all rows, most of them 0, each the sum of dy over the positions of its id in their
// order: in fp32, with the same bits in every run. Backward accumulates natively: it adds to a
// dweight that already holds a sum, such as that of a last layer with the same weight.
//
// An id is from 0 to vocabulary - 1. A session refuses feeds with others, naming the position
// (core/program/feeds.h). Kernels that get one nevertheless, on every device, make a vector of NaN
// there, and leave it out of dweight. The row `padding` gets no gradient; unlike PyTorch's, it
// begins as the others do.
//
// params: 0 weight {vocabulary, channels, 1} in the network's layout, with as many extents of 1 as
// y has spatial axes: that of a Convolution from `channels` to `vocabulary` with a kernel of 1,
// which may share it, as may LinearCrossEntropy. It is {vocabulary, channels} in files.
//
//   net.Input("ids", {1024}, DType::kInt32);
//   x = net.Add("wte", Embedding{.vocabulary = 50257, .channels = 768}, {"ids"});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/initial_weights.h"

namespace neap {

// Errors: INVALID_ARGUMENT for an input that is not int32 of 1 to 4 axes, and for a padding that
// is not an id.
struct Embedding {
  static constexpr std::string_view kType = "embedding";
  int64_t vocabulary = 0;
  int64_t channels = 0;
  std::optional<int64_t> padding = std::nullopt;
  InitialWeights init = {.weight = InitialWeights::Rule::kNormal, .scale = 1};  // PyTorch's
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Embedding&, const Embedding&) = default;
};

}  // namespace neap
