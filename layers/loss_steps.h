// What losses have in common: they compare predictions with labels or targets, in the mean over the
// batch.
//
// A loss with an auxiliary weight w is an auxiliary one (Graph::AuxiliaryLoss): its loss and its
// gradient are multiplied by w, and it counts no correct predictions. It adds to the metrics of the
// main loss instead of having its own.
#pragma once

#include <optional>
#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// The spec of a loss that reads predictions x of this tensor, input 0, and what they are compared
// with, input 1: its output, its state "metrics", and the steps forward and, in training,
// backward_data, with the operands that the tables in the losses' headers list. Forward has
// `forward_flops` for each element of x, and backward_data 2.
// Errors: INVALID_ARGUMENT for a weight that is not positive and finite.
absl::StatusOr<LayerSpec> LossSpec(const LayerContext& context, double forward_flops,
                                   std::optional<float> auxiliary_weight);

// The weight as a part of a loss's Parameters(); empty if there is none.
std::string WeightText(std::optional<float> auxiliary_weight);

}  // namespace neap
