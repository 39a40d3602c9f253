// The layer that stands for the caller of a network whose outputs have gradients that it gives
// (Graph::OutputWithGradient()). Resolve() adds it for training, behind all other layers.
//
// It reads the outputs like a loss, but has no forward step. The first step of backward is its
// pause: the iteration stops, the caller gets the outputs and computes a loss of its own, and the
// gradients that it gives are the values that the pause writes. Backward therefore treats them as
// those of any other layer, and adds what other readers of an output contribute.
//
//   conv | relu | logits | pause                             | logits | relu | conv
//        forward           reads logits, writes logits.grad        backward
//                             |  outputs     ^  gradients
//                             v              |
//                             the caller's loss
#pragma once

#include <string>
#include <string_view>

#include "neap/core/step/layer.h"

namespace neap {

inline constexpr std::string_view kCallerName = "caller";

struct Caller {
  static constexpr std::string_view kType = "caller";
  // Its inputs are the outputs whose gradients are given. A gradient may take an output's bytes.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Caller&, const Caller&) = default;
};

}  // namespace neap
