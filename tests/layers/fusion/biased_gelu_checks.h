// Checks that a GELU with the bias before it computes the bits of the layers that it replaces, for
// the tests of several backends.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// Forward and backward, which adds to the gradient of the bias or not, in both layouts.
void CheckBiasedGelu(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
