// The signature of a step of one layer by itself, without a network around it: what its kernel is
// made from.
//
// It is the one that a program has for such a step (core/program/program.h), so times that were
// measured for the one hold for the other.
//
//   const TensorSpec x = {{256, 64, 27, 27}};
//   const Layer conv2 = Convolution{.out_channels = 192, .kernel = 5, .padding = 2};
//   ASSIGN_OR_RETURN(StepSignature forward, SignatureOf(conv2, Phase::kForward, {x}));
//   forward.operands;  // x, weight, bias, y: a kernel takes their addresses in this order
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/layer.h"

namespace neap {

// In training. Errors: those of Layer::Specify(); INVALID_ARGUMENT for a phase that the layer has
// no step for, updates among them.
absl::StatusOr<StepSignature> SignatureOf(const Layer& layer, Phase phase,
                                          const std::vector<TensorSpec>& inputs);

// Of a step of `spec`, which the layer gave for these inputs in this mode. Random numbers are those
// of layer_seed 0.
StepSignature SignatureOf(const StepSpec& step, const Layer& layer, const LayerSpec& spec,
                          const LayerContext& context);

}  // namespace neap
