// PrependToken: a learned vector before the first position of every sequence, the class token of a
// vision transformer.
//
//   step           reads      writes
//   forward        x, weight  y
//   backward_data  dy         dx, dweight
//
// x is {N, C, T}, y {N, C, T + 1}: position 0 is the weight, and position t + 1 that of x at t.
// dweight is the sum of dy at position 0 over the examples in their order, in fp32. Backward
// accumulates natively: it adds to a dweight that already holds a sum.
//
// params: 0 weight {1, C, 1} of the type of x.
//
//   x = net.Add("class_token", PrependToken{}, {x});
#pragma once

#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/initial_weights.h"

namespace neap {

// Errors: INVALID_ARGUMENT for an input that is not a sequence.
struct PrependToken {
  static constexpr std::string_view kType = "prepend_token";
  InitialWeights init = {.weight = InitialWeights::Rule::kNormal, .scale = 0.02F};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const { return ""; }
  friend bool operator==(const PrependToken&, const PrependToken&) = default;
};

}  // namespace neap
