// Tests, for any device, of training with batch norms that are a part of 1x1 convolutions.
#pragma once

#include "neap/core/device/device.h"

namespace neap::testing {

// A step of a small residual network is as exact as one without folded batch norms, in fp32 and
// bf16.
void CheckFoldingIsClose(Device& device);

// The network trains to the same bits under every plan, in every type.
void CheckFoldedPlans(Device& device);

}  // namespace neap::testing
