// The float64 reference of batch normalisation, alone and with the sum and the ReLU behind it.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceBatchNorm(const StepSignature& signature, const Values& given);

}  // namespace neap::testing
