// Checks of norms of each image with numbers that are hard to sum, for any backend.
#pragma once

#include "neap/core/step/kernel.h"
#include "tests/layers/harness.h"

namespace neap::testing {

// Variances of numbers far from zero are accurate.
void CheckImageNormsFarFromZero(Backend& backend, const DeviceAccess& access);

// A NaN makes NaN of the values with which it is normalised, and of no others.
void CheckImageNormsOfNan(Backend& backend, const DeviceAccess& access);

// Layer norm has the same bits in both layouts, which is true of loops that add in the same order.
void CheckLayerNormBitsOfLayouts(Backend& backend, const DeviceAccess& access);

}  // namespace neap::testing
