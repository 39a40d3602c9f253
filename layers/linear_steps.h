// The steps that convolution and fully connected layers share: both are linear in x and in the
// weight.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// forward, and in training backward_params and backward_data, as their headers' tables say. `flops`
// of each.
void AddLinearSteps(bool bias, Mode mode, double flops, LayerSpec& spec);

}  // namespace neap
