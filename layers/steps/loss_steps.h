// Properties of all losses: they compare predictions with labels or targets, in the mean over the
// batch, and have a weight in the sum that training minimises (LayerSpec::loss_weight).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "neap/core/step/layer.h"

namespace neap {

// The spec of a loss that reads predictions x of this tensor, input 0, and what they are compared
// with, input 1: its output, its state "metrics", and the steps forward and, in training,
// backward_data, with the operands that the tables in the losses' headers list. Forward has
// `forward_flops` for each element of x, and backward_data 2.
// Errors: INVALID_ARGUMENT for a weight that is not positive and finite.
absl::StatusOr<LayerSpec> LossSpec(const LayerContext& context, double forward_flops, float weight);

// Errors: INVALID_ARGUMENT for a weight that is not positive and finite.
absl::Status CheckLossWeight(float weight);

// Of a loss that reads `predictions`, input 0, and labels, input 1: INVALID_ARGUMENT unless these
// are the two inputs, and the labels int32 with one for each position of the predictions, or, where
// `may_be_finer`, more of them (core/graph/label_grid.h).
absl::Status CheckLabelledInputs(const LayerContext& context, std::string_view predictions,
                                 bool may_be_finer);

// The weight as a part of a loss's Parameters(); empty if it is 1.
std::string WeightText(float weight);

}  // namespace neap
