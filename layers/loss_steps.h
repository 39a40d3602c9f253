// What losses have in common: they compare predictions with labels or targets, in the mean over the
// batch.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// The spec of a loss that reads predictions x of this tensor, input 0, and what they are compared
// with, input 1: its output, its state "metrics", and the steps forward and, in training,
// backward_data, with the operands that the tables in the losses' headers list. Forward has
// `forward_flops` for each element of x, and backward_data 2.
LayerSpec LossSpec(const LayerContext& context, double forward_flops);

}  // namespace neap
