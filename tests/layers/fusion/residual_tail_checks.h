// Checks that the end of a residual branch computes the bits of the layers that it replaces, for
// the tests of several backends.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// Forward and backward, which adds to the gradient of the scale or not, in both layouts, and
// forward in inference. Some images are dropped, and some are not.
void CheckResidualTail(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
