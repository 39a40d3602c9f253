// Checks that a group norm or an instance norm with an activation behind it computes the bits of
// the layers that it replaces, for the tests of several backends.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// Forward, its rerun and backward, which adds to the gradients of parameters or not, and inference,
// in both layouts, with all parameters, a weight alone and none.
void CheckActivatedGroupNorm(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
