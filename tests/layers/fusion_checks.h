// Checks that a batch norm which reads the parts of a concatenation, stores only the averages of
// its images, or has an activation behind it, computes the bits of the layers that it replaces. For
// the tests of several backends.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// Forward, its rerun and backward, with and without a ReLU, in both layouts, for parts that fit a
// kernel's vectors and parts that do not. Backward adds to the gradients of some parts.
void CheckBatchNormOfParts(Backend& backend, const DeviceAccess& access, DType dtype);

// A concatenation of batch norms has the bits of these layers and a Concat, in both layouts, where
// parts fit a kernel's vectors and where they do not. Backward adds to the gradients of some parts.
void CheckConcatBatchNorms(Backend& backend, const DeviceAccess& access, DType dtype);

// The same for global average pooling of a batch norm, with and without a sum and its second batch
// norm; and in inference.
void CheckAveragedBatchNorm(Backend& backend, const DeviceAccess& access, DType dtype);

// The same for a batch norm with an activation behind it.
void CheckActivatedNorm(Backend& backend, const DeviceAccess& access, DType dtype);

// For GPUs, where a kernel behind a convolution with a ReLU adds the bias: y has the bits of a
// convolution without a bias by the same engine and of a ReLU that adds it, the gradient before the
// ReLU those of a ReLU's, and the gradient of the bias those of the convolution's.
void CheckConvolutionWithRelu(Backend& backend, const DeviceAccess& access, DType dtype);

}  // namespace neap::testing
