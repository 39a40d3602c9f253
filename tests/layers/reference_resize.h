// Interpolation, adaptive average pooling and shuffles of pixels in float64, by the definitions in
// layers/resize/resize.h, layers/pooling.h and layers/resize/pixel_shuffle.h: every output is
// computed from its position, and gradients are scattered.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceResize(const StepSignature& signature, const Values& given);
Values ReferenceAdaptiveAveragePool(const StepSignature& signature, const Values& given);
// Also PixelUnshuffle.
Values ReferencePixelShuffle(const StepSignature& signature, const Values& given);

}  // namespace neap::testing
