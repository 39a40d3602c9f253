// Activations at their corners, where a comparison decides, and at every number of 16 bits.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// Checks values and gradients at and near the corners, and of a NaN and infinities, against those
// of PyTorch 2.6, in the type and in both layouts.
void CheckActivationCorners(Backend& backend, const DeviceAccess& access, DType dtype);

// Checks the values and gradients of the activations with exponentials at all finite numbers of the
// type, which has 16 bits, against float64: beside the half unit in the last place that rounding
// takes they are wrong by at most a hundredth of one, and, where the terms of a gradient cancel, by
// 2^-20.
void CheckActivationAccuracy(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
