// Checks of the layers whose kernels depend on the sub-batch, add to what earlier ones have
// computed, or must not couple images, for any backend.
#pragma once

#include "neap/core/base/tensor.h"
#include "neap/core/step/kernel.h"
#include "tests/layers/harness.h"

namespace neap::testing {

// Dropout computes the same bits in parts of a batch as for the whole batch, forward and backward;
// `dtype` is that of its tensors.
void CheckDropoutInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype);

// The end of a residual branch drops the same images, and adds up the gradient of its scale.
void CheckResidualTailInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype);

// Fully connected layers add up the gradients of their parameters.
void CheckFullyConnectedInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype);

// Norms of each image compute the same bits in parts of a batch as for the whole batch, and add up
// the gradients of their parameters.
void CheckNormsInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype);

// So does attention.
void CheckAttentionInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype);

// The loss computes the same probabilities and gradients, and the same metrics but for rounding;
// with a label per image, and with one per pixel.
void CheckLossInSubBatches(Backend& backend, const DeviceAccess& access);

}  // namespace neap::testing
