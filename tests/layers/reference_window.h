// The float64 reference of the layers with a sliding window, and of fully connected layers, whose
// window is as large as the image.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceConvolution(const StepSignature& signature, const Values& given);
Values ReferenceTransposedConvolution(const StepSignature& signature, const Values& given);
Values ReferenceFullyConnected(const StepSignature& signature, const Values& given);
Values ReferenceMaxPool(const StepSignature& signature, const Values& given);
Values ReferenceAveragePool(const StepSignature& signature, const Values& given);

}  // namespace neap::testing
