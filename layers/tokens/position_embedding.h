// PositionEmbedding: y = x + weight, with a learned vector for each position that all examples
// have: the absolute positions of GPT-2, and of the patches of a vision transformer.
//
//   step           reads      writes       in place
//   forward        x, weight  y            y over x
//   backward_data  dy         dx, dweight  dx over dy
//
// dx is dy; dweight is its sum over the examples in their order, in fp32. Backward accumulates
// natively: it adds to a dweight that already holds a sum, such as that of other examples.
//
// x is {N, C, T}, {N, C, H, W} or {N, C, D, H, W}. params: 0 weight {1, C, T} and so on, of the
// type and layout of x.
//
//   x = net.Add("wpe", PositionEmbedding{}, {x});
#pragma once

#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/initial_weights.h"

namespace neap {

struct PositionEmbedding {
  static constexpr std::string_view kType = "position_embedding";
  InitialWeights init = {.weight = InitialWeights::Rule::kNormal, .scale = 0.02F};  // GPT-2's
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return ""; }
  friend bool operator==(const PositionEmbedding&, const PositionEmbedding&) = default;
};

}  // namespace neap
