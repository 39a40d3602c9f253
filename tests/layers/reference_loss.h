// The float64 reference of the losses.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceSoftmaxCrossEntropy(const StepSignature& signature, const Values& given);
Values ReferenceMeanSquaredError(const StepSignature& signature, const Values& given);
Values ReferenceBinaryCrossEntropy(const StepSignature& signature, const Values& given);
Values ReferenceFocalLoss(const StepSignature& signature, const Values& given);
Values ReferenceDiceLoss(const StepSignature& signature, const Values& given);

}  // namespace neap::testing
