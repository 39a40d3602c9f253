// The steps that convolutions and fully connected layers have in common: both are linear in x and
// in the weight.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// Adds forward and, in training, backward_params and backward_data, with the operands that the
// tables in the layers' headers list. Each step has `flops`.
void AddLinearSteps(bool bias, Mode mode, double flops, LayerSpec& spec);

}  // namespace neap
