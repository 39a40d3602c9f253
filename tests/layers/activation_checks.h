// Activations at their corners, where a comparison decides.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// Checks values and gradients at and near the corners, and of a NaN and infinities, against those
// of PyTorch 2.6, in the type and in both layouts.
void CheckActivationCorners(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
