// Checks of kernels that add a gradient that others have contributed to (Slot::kAddend), for any
// backend.
#pragma once

#include "neap/core/step/kernel.h"
#include "tests/layers/harness.h"

namespace neap::testing {

// Layer norms and depthwise convolutions add it with the bits of a sum of its own.
void CheckAddends(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
