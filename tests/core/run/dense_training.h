// The test, for any device, that a small DenseNet trains to the same bits with and without fusion.
#pragma once

#include "neap/core/device/device.h"

namespace neap::testing {

// In every type and both layouts, with all bytes and with the fewest.
void CheckDenseNetFusion(Device& device);

}  // namespace neap::testing
