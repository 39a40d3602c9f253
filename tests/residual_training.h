// The test, for any device, that a small residual network trains to the same bits with and without
// fusion. It has every fused batch norm of a residual network: with a ReLU, with the max pooling
// behind that, and with a sum, which may be of two normalised tensors, come before a ReLU or a
// global average pooling, and receive its gradient in two parts.
#pragma once

#include "neap/core/device/device.h"

namespace neap::testing {

// In every type and both layouts, with a number of channels that fills whole vectors and with one
// that does not, with all bytes and with the fewest.
void CheckResidualNetFusion(Device& device);

}  // namespace neap::testing
