// The float64 reference of batch normalisation, alone and with what follows it in a fused layer.
#pragma once

#include <string>

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceBatchNorm(const StepSignature& signature, const Values& given);
// ChoiceFailure() (tests/layers/reference.h) of a forward step.
std::string BatchNormChoiceFailure(const StepSignature& signature, const Values& given,
                                   const Values& got, double tolerance);

}  // namespace neap::testing
