// The float64 reference of the norms that do not couple images: group norm, instance norm and layer
// norm.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceImageNorm(const StepSignature& signature, const Values& given);
// A group norm or an instance norm with an activation behind it.
Values ReferenceActivatedGroupNorm(const StepSignature& signature, const Values& given);

// The formulas of layers/norm/softmax.h.
Values ReferenceSoftmax(const StepSignature& signature, const Values& given);

}  // namespace neap::testing
